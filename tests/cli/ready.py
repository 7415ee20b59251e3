"""A process that has imported the command line already, and becomes one that runs a command: by a fork, in no time.

Importing is most of the work of a command. What has to start from nothing, and what is imported when, is tested with
interpreters of their own.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

# Run by whoever wants a command: hands over its streams, its folder and its environment, and ends as the command does.
COMMAND = """\
import _socket, json, os, sys
from array import array
other = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
other.connect(sys.argv[1])
order = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
other.sendmsg([json.dumps(order).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2]))])
os._exit(int(other.recv(100) or 1))
"""
Order = dict[str, Any]
SERVING = (
    *(f"surehand.gateway.mcp.{name}" for name in ("stdio.serve", "http.app", "http.server")),
    *("mcp.server.auth.provider", "uvicorn.lifespan.off", "uvicorn.loops.asyncio", "sse_starlette"),
)
"""What servers need besides, which takes a second."""


def warm() -> None:
    """Import what commands need, without a thread that would be lost in a fork."""
    import surehand.cli
    from surehand import Runtime, tool

    for module in pkgutil.walk_packages(surehand.cli.__path__, "surehand.cli."):
        import_module(module.name)
    for name in SERVING:
        import_module(name)

    @tool(effects={"write"}, confirm=True)
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}."

    async def once() -> None:
        async with Runtime(greet, store=":memory:") as runtime:
            await runtime.call("greet", {"name": "Ada"}, call_id="warm")
            assert (await runtime.approve("warm")).ok

    asyncio.run(once())
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # who becomes a command would look through all of it when it ends


def forked(address: str) -> tuple[Order, list[int]]:
    """Fork on command until nobody commands any more. Returns in those who are to become a command."""
    listener, known = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), selectors.DefaultSelector()
    listener.bind(address)
    listener.listen()
    for each in (listener, 0):
        known.register(each, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        key = known.select()[0][0]
        if key.fileobj == 0:
            os._exit(0)
        if key.data is not None:
            _end(known, *key.data)
            continue
        other, _ = listener.accept()
        order, streams, _, _ = socket.recv_fds(other, 1 << 20, 3)
        if not (child := os.fork()):
            _forget(known, listener, other)
            return json.loads(order), streams
        for stream in streams:
            os.close(stream)
        watched = (child, os.pidfd_open(child), other)
        for each in watched[1:]:
            known.register(each, selectors.EVENT_READ, watched)


def _forget(known: selectors.BaseSelector, *sockets: socket.socket) -> None:
    """Close what is the business of the one who forks."""
    others = [key.data[2] for key in known.get_map().values() if key.data is not None]
    known.close()
    for each in (*sockets, *others):
        each.close()


def _end(known: selectors.BaseSelector, child: int, ends: int, other: socket.socket) -> None:
    """It has ended by itself; or nobody waits for it any more, and then it has to."""
    if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        other.send(str(code if code >= 0 else 128 - code).encode())
    for each in (ends, other):
        known.unregister(each)
    os.close(ends)
    other.close()


def become(order: Order, streams: list[int]) -> None:
    """As if this process had just been started there: in a terminal it leads, so that Ctrl-C reaches it."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(streams) + 100)
    if os.isatty(0):
        os.setsid()
        os.close(os.open(os.ttyname(0), os.O_RDWR))
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[1:] = order["arguments"]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - closed by nobody
    sys.stdout, sys.stderr = _written(1, "strict"), _written(2, "backslashreplace")


def _written(number: int, errors: str) -> io.TextIOWrapper:
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    stream: Any = open(number, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115 - closed by nobody
    by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(stream, "utf-8", errors, line_buffering=by_line, write_through=at_once)


def leave(code: Any) -> None:
    """End as an interpreter does, but do not take apart, piece by piece, all that was there before the fork."""
    if isinstance(code, str):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    with suppress(OSError, ValueError):  # nobody reads any more: the interpreter knows what to say of that
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    warm()
    become(*forked(sys.argv[1]))
    from surehand.cli.main import main

    try:
        main()
    except SystemExit as ended:
        leave(ended.code)
        raise
