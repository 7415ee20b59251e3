"""Servers for tests: real ones written with the MCP SDK, and scripted ones in plain Python."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent
FRIENDLY = (sys.executable, str(FOLDER / "friendly.py"))
"""Over stdin and stdout, both eras; takes a second to start."""
PLAIN = (sys.executable, "-S", str(FOLDER / "plain.py"))
"""Over stdio, in the handshake protocol; starts at once; further arguments are its habits."""


@asynccontextmanager
async def serving(kind: str, *options: str, port: int = 0, **env: str) -> AsyncIterator[int]:
    """The friendly server over `streamable-http`, `sse` or `websocket`, as a process of its own: gives its port."""
    argv = (sys.executable, str(FOLDER / "served.py"), kind, str(port), *options)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env={**os.environ, **env})
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # else it is warned of when collected


@contextmanager
def served(kind: str, *options: str, **env: str) -> Iterator[int]:
    """The same for a fixture that several tests share: starting it takes a second or two."""
    argv = (sys.executable, str(FOLDER / "served.py"), kind, "0", *options)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **env}) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
