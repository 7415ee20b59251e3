"""A server in plain Python that misbehaves as it is told, word by word.

    python hostile.py FOLDER [modern | legacy]

`said.json` in the folder gives, by method, what it does in place of an answer: a list of steps, each of which is
`{"do": name}` or `{"say": text, "times": 1}`. In the text, `$ID` and `$TOKEN` stand for the request's id and progress
token, `$COUNT` for how often the method was asked for, and `$OTHER` for the id of the first call of `bad`. An answer of
ours is the method `answer`. A method that is not in the file is answered as it should be.
The tool `bad` takes such steps as its argument, `effect` leaves a line in `effects`, and `echo` is well-behaved.
It is started hundreds of times, and so imports little: neither `pathlib` nor `typing`.
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

FOLDER, ERA = sys.argv[1], (sys.argv[2:] or ["legacy"])[0]
MODERN = "2026-07-28"
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}
ANY = {"type": "object"}
TOOLS = [{"name": name, "inputSchema": ANY} for name in ("bad", "effect", "echo")]
COUNTS: dict[str, int] = {}
CALLS: list[Any] = []


def trace(name: str, line: object) -> None:
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
    """Ends; its child, in a session of its own, keeps the pipe."""
    import subprocess

    subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
    os._exit(3)


def cling() -> None:
    """Does not end when it is asked to."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=lambda: time.sleep(60)).start()


def shout() -> None:
    """A hundred megabytes to stderr."""
    for _ in range(1600):
        os.write(2, b"noise \x1b[31mred\n" * 4096)


def start_shouting() -> None:
    threading.Thread(target=shout, daemon=True).start()


def hang() -> None:
    time.sleep(60)


def die() -> None:
    os._exit(9)


def note() -> None:
    trace("effects", "noted")


STEPS = {step.__name__: step for step in (note, close_stdout, leave_a_child, cling, shout, start_shouting, hang, die)}


def act(steps: list[dict[str, Any]], message: dict[str, Any]) -> None:
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
        while times > 0:  # in pieces that fit into a pipe
            many = min(times, max(65536 // max(len(data), 1), 1))
            write(data * many)
            times -= many


def usual(message: dict[str, Any]) -> dict[str, Any] | None:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"name": "hostile", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": about}
    if method == "server/discover" and ERA == "modern":
        return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/list":
        return {"tools": TOOLS, **({"ttlMs": 0, "cacheScope": "private"} if ERA == "modern" else {})}
    if method == "tools/call":
        return called(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


def called(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if name == "effect":
        trace("effects", given["text"])
    return {"content": [{"type": "text", "text": str(given.get("text"))}]}


def said() -> dict[str, Any]:
    if not os.path.exists(os.path.join(FOLDER, "said.json")):
        return {}
    with open(os.path.join(FOLDER, "said.json"), encoding="utf-8") as file:
        return json.load(file)


def heard(message: dict[str, Any]) -> None:
    if "method" not in message:
        trace("heard", json.dumps(message))
    if "id" not in message:
        return None
    method, params = message.get("method", "answer"), message.get("params") or {}
    if method in (instead := said()):
        return act(instead[method], message)
    if method == "answer":
        return None
    if method == "tools/call" and params["name"] == "bad":
        CALLS.append(message["id"])
        return act(params["arguments"]["steps"], message)
    result = usual(message)
    if result is None:
        return send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    return send({"id": message["id"], "result": {"resultType": "complete", **result} if ERA == "modern" else result})


if __name__ == "__main__":
    trace("starts", os.getpid())
    for line in sys.stdin.buffer:
        heard(json.loads(line))
