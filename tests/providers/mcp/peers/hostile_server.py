"""A server in plain Python that misbehaves as scripted.

    python hostile_server.py FOLDER [modern | legacy]

`said.json` in the folder gives, by method, the steps that it takes instead of an answer, each of which is
`{"do": name}` or `{"say": text, "times": 1}`. In the text, `$ID` and `$TOKEN` stand for the request's id and progress
token, `$COUNT` for the number of requests of this method, and `$OTHER` for the id of the first call of `bad`. An answer
of our client has the method `answer`. A method that is not in the file gets a correct answer.
The tool `bad` takes such steps as its argument, `effect` appends a line to `effects`, and `echo` is well-behaved.
Tests start it hundreds of times, so it imports little: neither `pathlib` nor `typing`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = sys.argv[1]
ERA = (sys.argv[2:] or ["legacy"])[0]
MODERN = "2026-07-28"
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}
ANY_OBJECT = {"type": "object"}
TOOLS = [{"name": name, "inputSchema": ANY_OBJECT} for name in ("bad", "effect", "echo")]
COUNTS: dict[str, int] = {}
CALLS: list[Any] = []


def append_line(name: str, line: object) -> None:
    with open(os.path.join(FOLDER, name), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def close_stdout() -> None:
    """Keep running with a closed output."""
    os.close(1)
    time.sleep(60)


def leave_a_child() -> None:
    """Exit, while a child in a session of its own keeps the pipe open."""
    import subprocess

    subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
    os._exit(3)


def cling() -> None:
    """Ignore signals and the end of the input."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=lambda: time.sleep(60)).start()


def shout() -> None:
    """Write a hundred megabytes to stderr."""
    for _ in range(1600):
        os.write(2, b"noise \x1b[31mred\n" * 4096)


def start_shouting() -> None:
    threading.Thread(target=shout, daemon=True).start()


def hang() -> None:
    time.sleep(60)


def die() -> None:
    os._exit(9)


def note() -> None:
    append_line("effects", "noted")


STEPS = {step.__name__: step for step in (note, close_stdout, leave_a_child, cling, shout, start_shouting, hang, die)}


def take_steps(steps: list[dict[str, Any]], message: dict[str, Any]) -> None:
    method, meta = str(message.get("method", "answer")), (message.get("params") or {}).get("_meta") or {}
    COUNTS[method] = COUNTS.get(method, 0) + 1
    for step in steps:
        if "do" in step:
            STEPS[step["do"]]()
            continue
        text = step["say"].replace("$ID", json.dumps(message.get("id")))
        text = text.replace("$OTHER", json.dumps(CALLS[0] if CALLS else None))
        text = text.replace("$TOKEN", json.dumps(meta.get("progressToken"))).replace("$COUNT", str(COUNTS[method]))
        data, times = text.encode("latin-1"), step.get("times", 1)
        while times > 0:  # in pieces that fit into the pipe's buffer
            many = min(times, max(65536 // max(len(data), 1), 1))
            write(data * many)
            times -= many


def correct_result(message: dict[str, Any]) -> dict[str, Any] | None:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"name": "hostile", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": about}
    if method == "server/discover" and ERA == "modern":
        return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/list":
        return {"tools": TOOLS, **({"ttlMs": 0, "cacheScope": "private"} if ERA == "modern" else {})}
    if method == "tools/call":
        return call_tool(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "effect":
        append_line("effects", arguments["text"])
    return {"content": [{"type": "text", "text": str(arguments.get("text"))}]}


def read_script() -> dict[str, Any]:
    if not os.path.exists(os.path.join(FOLDER, "said.json")):
        return {}
    with open(os.path.join(FOLDER, "said.json"), encoding="utf-8") as file:
        return json.load(file)


def handle_message(message: dict[str, Any]) -> None:
    if "method" not in message:
        append_line("heard", json.dumps(message))
    if "id" not in message:
        return None
    method, params = message.get("method", "answer"), message.get("params") or {}
    if method in (script := read_script()):
        return take_steps(script[method], message)
    if method == "answer":
        return None
    if method == "tools/call" and params["name"] == "bad":
        CALLS.append(message["id"])
        return take_steps(params["arguments"]["steps"], message)
    result = correct_result(message)
    if result is None:
        return send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    return send({"id": message["id"], "result": {"resultType": "complete", **result} if ERA == "modern" else result})


if __name__ == "__main__":
    append_line("starts", os.getpid())
    for line in sys.stdin.buffer:
        handle_message(json.loads(line))
