"""`surehand mcp` as a process, with tools that report its state."""

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

from tests.gateway.mcp.http_peer import HttpSite
from tests.gateway.mcp.stdio_peer import StdioPeer
from tests.surehand_command import Command

HERE = Path(__file__).parent
PROCESS_TOOLS = str(HERE / "process_tools.py")
ROOT = HERE.parents[2]
PROCESS_TIMEOUT_SECONDS = 30.0


@pytest.fixture(scope="session")
def surehand(fast_command: Command) -> Command:
    """The command `surehand`."""
    return fast_command


@asynccontextmanager
async def stdio_process(
    surehand: Command, *arguments: str, stderr: int = DEVNULL
) -> AsyncIterator[tuple[StdioPeer, Process]]:
    """`surehand mcp` with its standard streams in pipes."""
    process = await asyncio.create_subprocess_exec(
        *surehand, "mcp", "--tools", PROCESS_TOOLS, *arguments, stdin=PIPE, stdout=PIPE, stderr=stderr, limit=1 << 24
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield StdioPeer(process.stdout, process.stdin), process
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PROCESS_TIMEOUT_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@contextmanager
def http_process(surehand: Command, *arguments: str, **environment: str) -> Iterator[tuple[HttpSite, int]]:
    """`surehand mcp --http` on a free port, and the id of its process."""
    command = [*surehand, "mcp", "--http", "--port", "0", "--tools", PROCESS_TOOLS, *arguments]
    others = surehand.running_pids()
    process = subprocess.Popen(command, stderr=PIPE, stdin=DEVNULL, text=True, env={**os.environ, **environment})
    assert process.stderr is not None
    told = process.stderr.readline()
    found = re.search(r"at http://[^ ]*?:(\d+)/", told)
    assert found, told
    (inside,) = surehand.running_pids() - others
    try:
        yield HttpSite(int(found[1])), inside
    finally:
        with suppress(ProcessLookupError):
            os.kill(inside, signal.SIGTERM)
        rest = process.communicate(timeout=PROCESS_TIMEOUT_SECONDS)[1]
        assert "Traceback" not in rest, rest
        assert process.returncode == 0
