"""A fork server for the command line: it has imported everything, and forks a process that runs a command at once.

Importing is most of the work of a command. Tests of the start itself, and of its imports, use new interpreters.
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

# The client: sends its streams, folder and environment to the server, and exits with the exit code of the command.
CLIENT_PROGRAM = """\
import _socket, json, os, sys
from array import array
other = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
other.connect(sys.argv[1])
order = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
other.sendmsg([json.dumps(order).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2]))])
os._exit(int(other.recv(100) or 1))
"""
CommandRequest = dict[str, Any]
SERVER_MODULES = (
    *(f"surehand.gateway.mcp.{name}" for name in ("stdio.serve", "http.app", "http.server")),
    *("mcp.server.auth.provider", "uvicorn.lifespan.off", "uvicorn.loops.asyncio", "sse_starlette"),
)
"""Further modules that the MCP servers need; importing them takes a second."""


def warm_up() -> None:
    """Import what commands need, without leaving a thread, because a fork would lose it."""
    import surehand.cli
    from surehand import Runtime, tool

    for module in pkgutil.walk_packages(surehand.cli.__path__, "surehand.cli."):
        import_module(module.name)
    for name in SERVER_MODULES:
        import_module(name)

    @tool(effects={"write"}, confirm=True)
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}."

    async def call_tool() -> None:
        async with Runtime(greet, store=":memory:") as runtime:
            await runtime.call("greet", {"name": "Ada"}, call_id="warm")
            assert (await runtime.approve("warm")).ok

    asyncio.run(call_tool())
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # otherwise every forked command would scan these objects when it exits


def serve_until_forked(address: str) -> tuple[CommandRequest, list[int]]:
    """Fork for every request until stdin is closed. Returns only in the forked processes."""
    listener, selector = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), selectors.DefaultSelector()
    listener.bind(address)
    listener.listen()
    for each in (listener, 0):
        selector.register(each, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        key = selector.select()[0][0]
        if key.fileobj == 0:
            os._exit(0)
        if key.data is not None:
            _end_command(selector, *key.data)
            continue
        connection, _ = listener.accept()
        request, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not (child := os.fork()):
            _close_server_sockets(selector, listener, connection)
            return json.loads(request), streams
        for stream in streams:
            os.close(stream)
        watched = (child, os.pidfd_open(child), connection)
        for each in watched[1:]:
            selector.register(each, selectors.EVENT_READ, watched)


def _close_server_sockets(selector: selectors.BaseSelector, *sockets: socket.socket) -> None:
    """Close the sockets of the server in a forked process."""
    connections = [key.data[2] for key in selector.get_map().values() if key.data is not None]
    selector.close()
    for each in (*sockets, *connections):
        each.close()


def _end_command(selector: selectors.BaseSelector, child: int, pidfd: int, connection: socket.socket) -> None:
    """Report the exit code of a command. If its client has disconnected, kill the command first."""
    if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.send(str(code if code >= 0 else 128 - code).encode())
    for each in (pidfd, connection):
        selector.unregister(each)
    os.close(pidfd)
    connection.close()


def become_command(request: CommandRequest, streams: list[int]) -> None:
    """Take over the client's streams, folder and environment. In a terminal, lead a new session to receive Ctrl-C."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(streams) + 100)
    if os.isatty(0):
        os.setsid()
        os.close(os.open(os.ttyname(0), os.O_RDWR))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open until the process exits
    sys.stdout, sys.stderr = _open_output(1, "strict"), _open_output(2, "backslashreplace")


def _open_output(number: int, errors: str) -> io.TextIOWrapper:
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    stream: Any = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115 - stays open until the process exits
    line_buffered = number == 2 or os.isatty(number)
    return io.TextIOWrapper(stream, "utf-8", errors, line_buffering=line_buffered, write_through=unbuffered)


def exit_fast(code: Any) -> None:
    """Exit like an interpreter, but without destroying every object that existed before the fork."""
    if isinstance(code, str):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    with suppress(OSError, ValueError):  # the pipe is closed: let the interpreter report it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    warm_up()
    become_command(*serve_until_forked(sys.argv[1]))
    from surehand.cli.main import main

    try:
        main()
    except SystemExit as ended:
        exit_fast(ended.code)
        raise
