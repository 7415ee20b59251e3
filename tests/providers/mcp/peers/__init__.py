"""MCP servers for tests: real ones written with the MCP SDK, and scripted ones in plain Python."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent
FRIENDLY = (sys.executable, str(FOLDER / "friendly_server.py"))
"""Command of a server over stdio, in both protocols; takes a second to start."""
PLAIN = (sys.executable, "-S", str(FOLDER / "plain_server.py"))
"""Command of a server over stdio, in the handshake protocol; starts at once. Further arguments are its habits."""


@asynccontextmanager
async def friendly_http_server(kind: str, *options: str, port: int = 0, **env: str) -> AsyncIterator[int]:
    """Start the friendly server over `streamable-http`, `sse` or `websocket` in another process; gives its port."""
    argv = (sys.executable, str(FOLDER / "friendly_http_server.py"), kind, str(port), *options)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env={**os.environ, **env})
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # otherwise a ResourceWarning follows at garbage collection


@contextmanager
def start_friendly_http(kind: str, *options: str, **env: str) -> Iterator[int]:
    """Like `friendly_http_server`, for synchronous fixtures that several tests share, because it starts slowly."""
    argv = (sys.executable, str(FOLDER / "friendly_http_server.py"), kind, "0", *options)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **env}) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
