"""Lines: a child process that is spoken to in lines of JSON.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import CancelScope

from toolwright.providers.mcp.plain import LIGHT
from toolwright.providers.mcp.routes.label import masked_line
from toolwright.providers.mcp.routes.route import Ended, Who
from toolwright.providers.mcp.routes.stderr import Stderr
from toolwright.providers.mcp.routes.wire import Reading, TooLarge, Wire, Writing
from toolwright.sandbox.child import Child
from toolwright.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from toolwright.providers.mcp.routes.stdio import Stdio

CHUNK = 1 << 16
GRACE = 1.5
"""Seconds that a server has to end by itself once nothing more is sent to it."""
ASKED = 0.5
"""Seconds that it has after it was asked to end; then it is ended, with all that it started."""
_PARTING = 0.5
"""Seconds to wait for the exit code of a server that has closed its output."""
_REST = 1.0
"""Seconds to read the rest of what a server wrote that has ended."""
_FLUSHED = 512
"""Chunks that a server may still write while it ends."""


class Spoken:
    """A server's process while it is connected: what the library's `Client` enters and leaves."""

    def __init__(self, route: Stdio, who: Who, ended: Ended) -> None:
        self._route, self._who, self._ended = route, who, ended
        self._child: Child | None = None
        self._stderr = Stderr(route.log)
        self._code: int | None = None
        self._went = False
        """Whether it went by itself."""

    async def __aenter__(self) -> tuple[Reading, Writing]:
        route, surroundings = self._route, await self._route.surroundings(self._who)
        folder = route.check(surroundings)
        shown = [folder] if isinstance(surroundings, Sandbox) and route.cwd else []
        self._child = await Child.start(
            route.argv, cwd=folder, sandbox=surroundings, read=shown, stdin=True, limit=CHUNK
        )
        self._reading_stderr = asyncio.create_task(self._stderr.read(self._child.stderr))
        lines = Lines(self._child, route.max_frame, self)
        self._wire = Wire(lines, log=route.log, ended=self._ended)
        return Reading(self._wire), Writing(self._wire)

    async def __aexit__(self, *_: object) -> None:
        child = self._child
        assert child is not None
        self._wire.leave()
        with CancelScope(shield=True):
            try:
                await self._let_end(child)
            finally:
                await self._end(child)

    async def _end(self, child: Child) -> None:
        try:
            await child.stop(ASKED)
            await self._exit_code(0.1)
            await self._read_rest()
        finally:
            self._reading_stderr.cancel()

    async def _let_end(self, child: Child) -> None:
        """Close its input, and take what it still writes: stuck writing, it could not see that it is to end."""
        child.stdin.finish()
        with suppress(TimeoutError, RuntimeError):  # somebody is reading still
            async with asyncio.timeout(GRACE):
                for _ in range(_FLUSHED):
                    if not await child.stdout.read(CHUNK):
                        break
                else:
                    return
                await child.wait()

    @property
    def dropped(self) -> int:
        """How many lines were no messages."""
        return self._wire.dropped

    async def last_words(self) -> str:
        """Why the server has gone, as far as it can be known within a moment."""
        self._went = True
        await self._exit_code(_PARTING)
        if self._code is not None:
            await self._read_rest()
        how = "closed its output" if self._code is None else f"ended by itself, with {_code(self._code)}"
        return f"The server {how}. {self._last_line}".rstrip()

    async def _exit_code(self, seconds: float) -> None:
        assert self._child is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self._code = await self._child.wait()

    async def _read_rest(self) -> None:
        await asyncio.wait({self._reading_stderr}, timeout=_REST)

    @property
    def _last_line(self) -> str:
        return f"It last wrote: {masked_line(self._stderr.lines[-1])}" if self._stderr.lines else ""

    @property
    def _how(self) -> str:
        return "" if self._code is None else f"It ended with {_code(self._code)}."

    def gist(self) -> list[str]:
        """How it ended, if by itself, and what it wrote last, each in a sentence that a model may read."""
        return [each for each in (self._how if self._went else "", self._last_line) if each]

    def story(self) -> str:
        """How it ended, and the last lines that it wrote to stderr."""
        said = "\n".join(f"  {line}" for line in self._stderr.lines)
        return "\n".join(filter(None, [self._how, f"The last lines of its stderr:\n{said}" if said else ""]))


def _code(code: int) -> str:
    return f"exit code {code}" if code <= 128 else f"signal {code - 128}"


class Lines:
    """Lines of a process's output, read in large pieces, and lines to its input."""

    def __init__(self, child: Child, most: int, spoken: Spoken) -> None:
        self._child, self._most = child, most
        self._begun: list[bytes] = []
        self._length = 0
        self._is_next = False
        """Whether all that came before has been read, and handed on: what comes now is the next."""
        self.last_words = spoken.last_words

    def straight_to(self, told: Callable[[bytes], bool]) -> None:
        """Say who is told of lines the moment they come, while none is before them, and answers whether it took one."""
        self._told, self._light = told, min(self._most, LIGHT)
        self._child.stdout.tap = self._tap

    def _tap(self, data: bytes) -> bytes:
        """Hand over whole lines as long as they are taken; the rest is read in its turn."""
        start = 0
        if self._is_next and not self._length:
            while 0 <= (end := data.find(b"\n", start)) <= start + self._light and self._told(data[start:end]):
                start = end + 1
        self._is_next = self._is_next and start == len(data)
        return data[start:]

    async def _read(self) -> bytes:
        self._is_next = True
        try:
            return await self._child.stdout.read(CHUNK)
        finally:
            self._is_next = False

    async def take(self) -> list[bytes]:
        """All lines that have come."""
        while data := await self._read():
            *lines, rest = data.split(b"\n")
            if lines:
                lines[0] = b"".join([*self._begun, lines[0]])
                self._begun, self._length = [], 0
            self._begun.append(rest)
            self._length += len(rest)
            if self._length > self._most or (lines and len(lines[0]) > self._most):
                self._begun = []
                raise TooLarge(f"The server sent a message of more than {self._most} bytes, which is not read.")
            if lines := [line for line in lines if line]:
                return lines
            await asyncio.sleep(0)  # a million empty lines are there at once, and others have their turn
        return []

    def put_now(self, frame: bytes) -> bool:
        """Write a line if none before it waits to be taken."""
        return self._child.stdin.write_now(frame + b"\n")

    async def put(self, frame: str) -> None:
        """Write a line, once those before it have been taken: so no more than one waits, however slow the server."""
        stdin = self._child.stdin
        await stdin.drain()
        stdin.write(frame.encode() + b"\n")
        await stdin.drain()
