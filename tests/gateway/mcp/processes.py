"""`surehand mcp` as a process of its own, with tools that tell what goes on inside it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.command import Command
from tests.gateway.mcp.lines_peer import Peer
from tests.gateway.mcp.web_peer import Site

HERE = Path(__file__).parent
INSIDE = str(HERE / "inside.py")
ROOT = HERE.parents[2]
PATIENCE = 30.0


@pytest.fixture(scope="session")
def surehand(ready: Command) -> Command:
    """How to start `surehand`."""
    return ready


@asynccontextmanager
async def piped(surehand: Command, *arguments: str, stderr: int = DEVNULL) -> AsyncIterator[tuple[Peer, Process]]:
    """`surehand mcp` with its standard streams in pipes."""
    process = await asyncio.create_subprocess_exec(
        *surehand, "mcp", "--tools", INSIDE, *arguments, stdin=PIPE, stdout=PIPE, stderr=stderr, limit=1 << 24
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Peer(process.stdout, process.stdin), process
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@contextmanager
def on_a_port(surehand: Command, *arguments: str, **environment: str) -> Iterator[tuple[Site, int]]:
    """`surehand mcp --http` on a free port, and the id of its process."""
    command = [*surehand, "mcp", "--http", "--port", "0", "--tools", INSIDE, *arguments]
    others = surehand.running()
    process = subprocess.Popen(command, stderr=PIPE, stdin=DEVNULL, text=True, env={**os.environ, **environment})
    assert process.stderr is not None
    told = process.stderr.readline()
    found = re.search(r"at http://[^ ]*?:(\d+)/", told)
    assert found, told
    (inside,) = surehand.running() - others
    try:
        yield Site(int(found[1])), inside
    finally:
        with suppress(ProcessLookupError):
            os.kill(inside, signal.SIGTERM)
        rest = process.communicate(timeout=PATIENCE)[1]
        assert "Traceback" not in rest, rest
        assert process.returncode == 0
