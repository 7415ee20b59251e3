"""A small server in plain Python that starts at once: `python plain_server.py [habit ...]`.

It uses the handshake protocol (`initialize`), and has the tools `echo`, `pid` and `spawn`. Its arguments switch on bad
habits, which `HABITS` lists.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

STDOUT = sys.stdout.buffer


def send(message: dict[str, Any]) -> None:
    STDOUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    STDOUT.flush()


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "plain", "version": "1"},
    }


def spawn(seconds: str = "60") -> str:
    """Start a grandchild in a session of its own that ignores signals."""
    code = (
        "import signal, time; signal.signal(15, 1); signal.signal(1, 1); print('up', flush=True); time.sleep(float({}))"
    )
    command = [sys.executable, "-c", code.format(seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
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
    if name == "print":  # written to the output unchanged
        STDOUT.write(arguments["text"].encode("utf-8", "surrogateescape"))
        STDOUT.flush()
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
    STDOUT.write(b"Welcome to the plain server!\n\n\xff\xfe not UTF-8\n{broken\n\r\n")
    STDOUT.flush()


def stubborn() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def deathless() -> None:
    """Keep running after the end of the input."""
    stubborn()
    threading.Thread(target=lambda: time.sleep(60)).start()


def flood() -> None:
    """Write notifications without end."""

    def write_forever() -> None:
        line = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
        )
        while True:
            STDOUT.write(line.encode() + b"\n")

    threading.Thread(target=write_forever, daemon=True).start()


def noisy() -> None:
    """Write to stderr without end."""

    def write_forever() -> None:
        while True:
            os.write(2, b"noise \x1b[31mred\n" * 500)

    threading.Thread(target=write_forever, daemon=True).start()


def endless() -> None:
    """Write one line that never ends."""
    while True:
        os.write(1, b"x" * 65536)


def deaf() -> None:
    """Never read the input."""
    time.sleep(60)


def failing() -> None:
    print("cannot find the database", file=sys.stderr)
    sys.exit(4)


def family() -> None:
    """Start a grandchild in a session of its own."""
    print("grandchild", spawn(), file=sys.stderr, flush=True)


HABITS = {each.__name__: each for each in (banner, stubborn, deathless, flood, noisy, endless, deaf, failing, family)}

if __name__ == "__main__":
    for habit in sys.argv[1:]:
        HABITS[habit]()
    for line in sys.stdin.buffer:
        answer(json.loads(line))
