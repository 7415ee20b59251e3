"""A gateway in a process that tests can kill and start again."""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

PROGRAM = Path(__file__).parent / "gateway_program.py"
START_TIMEOUT_SECONDS = 60


class GatewayProcess:
    """A gateway in a process of its own, always on the same port."""

    def __init__(self, folder: Path, program: Path = PROGRAM) -> None:
        self._command = (sys.executable, str(program), str(folder))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "GatewayProcess":
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            await self.end(signal.SIGKILL)

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = await asyncio.create_subprocess_exec(*self._command, str(self.port), stdout=PIPE)
        assert self._process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            assert await self._process.stdout.readline() == b"ready\n"

    async def end(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end of the process."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return await self._process.wait()
