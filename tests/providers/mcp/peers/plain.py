"""A small server in plain Python that starts at once: `python plain.py [habit ...]`.

It uses the handshake protocol (`initialize`), and has the tools `echo`, `pid` and `spawn`. The bad habits that its
arguments switch on are named in `HABITS`.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

OUT = sys.stdout.buffer


def send(message: dict[str, Any]) -> None:
    OUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    OUT.flush()


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "plain", "version": "1"},
    }


def spawn(seconds: str = "60") -> str:
    """A grandchild in a session of its own, that ignores what can be ignored."""
    code = (
        "import signal, time; signal.signal(15, 1); signal.signal(1, 1); print('up', flush=True); time.sleep(float({}))"
    )
    given = [sys.executable, "-c", code.format(seconds)]
    child = subprocess.Popen(given, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    return str(child.pid)


def call(name: str, arguments: dict[str, Any]) -> str:
    if name == "echo":
        return str(arguments["text"])
    if name == "pid":
        return str(os.getpid())
    if name == "spawn":
        return spawn()
    if name == "say":
        print(arguments["text"], file=sys.stderr, flush=True)
        return "said"
    if name == "print":  # straight to the output, as it is
        OUT.write(arguments["text"].encode("utf-8", "surrogateescape"))
        OUT.flush()
        return "printed"
    if name == "exit":
        print("last words", file=sys.stderr, flush=True)
        os._exit(int(arguments["code"]))
    if name == "wait":
        time.sleep(float(arguments["seconds"]))
    return name


def answer(message: dict[str, Any]) -> None:
    if "id" not in message:
        return
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        send({"id": message["id"], "result": initialize(params)})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "pid")]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        text = call(params["name"], params.get("arguments") or {})
        send({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})
    elif method == "ping":
        send({"id": message["id"], "result": {}})
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


def banner() -> None:
    OUT.write(b"Welcome to the plain server!\n\n\xff\xfe not UTF-8\n{broken\n\r\n")
    OUT.flush()


def stubborn() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def deathless() -> None:
    """Goes on when its input ends."""
    stubborn()
    threading.Thread(target=lambda: time.sleep(60)).start()


def flood() -> None:
    """Writes for as long as it can."""

    def go() -> None:
        line = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
        )
        while True:
            OUT.write(line.encode() + b"\n")

    threading.Thread(target=go, daemon=True).start()


def noisy() -> None:
    """Writes to stderr for as long as it can."""

    def go() -> None:
        while True:
            os.write(2, b"noise \x1b[31mred\n" * 500)

    threading.Thread(target=go, daemon=True).start()


def endless() -> None:
    """One line that never ends."""
    while True:
        os.write(1, b"x" * 65536)


def deaf() -> None:
    """Never reads."""
    time.sleep(60)


def failing() -> None:
    print("cannot find the database", file=sys.stderr)
    sys.exit(4)


def family() -> None:
    """Has a grandchild in a session of its own from the start."""
    print("grandchild", spawn(), file=sys.stderr, flush=True)


HABITS = {each.__name__: each for each in (banner, stubborn, deathless, flood, noisy, endless, deaf, failing, family)}

if __name__ == "__main__":
    for habit in sys.argv[1:]:
        HABITS[habit]()
    for line in sys.stdin.buffer:
        answer(json.loads(line))
