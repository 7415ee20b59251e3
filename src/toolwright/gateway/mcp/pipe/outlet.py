"""Outlet: bytes to a descriptor, at once where they fit; what nobody takes waits, but not without end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

ROOM = 1 << 20
"""Bytes that may wait to be taken; then whoever has more to say waits."""
PATIENCE = 30.0
"""Seconds in which the other side has to take something of what waits for it."""


class Outlet:
    """Writes to a descriptor that does not block, or that may."""

    def __init__(
        self, descriptor: int, *, roomy: Callable[[], None], lost: Callable[[], None], patience: float = PATIENCE
    ) -> None:
        self._to, self._roomy, self._lost, self._patience = descriptor, roomy, lost, patience
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._rest = memoryview(b"")
        self._just_written = self._stuck = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._taken: asyncio.Future[None] | None = None
        self.crowded = False
        """Whether more waits than should, and whoever can wait with the rest is to do so."""
        self.size = 0
        """Bytes that wait."""
        self.gone = False
        """Whether nobody reads any more."""

    def put(self, data: bytes, *, alone: bool = False) -> None:
        """Write this after all else. The first of a turn of the loop goes at once, all others of that turn together.

        Args:
            alone: that no others are to be expected in this turn.
        """
        if self.gone:
            return
        self._waiting.append(data)
        self.size += len(data)
        if self.size > ROOM:
            self.crowded = True
            self._room.clear()
        if not self._just_written and not self._stuck:
            if not alone:
                self._just_written = True
                self._loop.call_soon(self._next_turn)
            self._write()

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self.crowded:
            await self._room.wait()

    async def finish(self, seconds: float) -> None:
        """Give the other side some time to take what waits; then it is forgotten."""
        self._taken = self._loop.create_future()
        if self.size and not self.gone:
            await asyncio.wait({self._taken}, timeout=seconds)
        self.close()

    def close(self) -> None:
        """Nothing more is written."""
        self.gone = True
        self._unstick()
        self._waiting, self._rest, self.size = [], memoryview(b""), 0
        self._has_room()
        self._all_taken()

    def _all_taken(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    def _next_turn(self) -> None:
        self._just_written = False
        if self._waiting and not self._stuck and not self.gone:
            self._write()

    def _write(self) -> None:
        if not self._rest:
            self._rest = memoryview(self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting))
            self._waiting = []
        try:
            written = os.write(self._to, self._rest)
        except (BlockingIOError, InterruptedError):
            written = 0
        except OSError:
            self._lose()
            return
        self._rest = self._rest[written:]
        self.size -= written
        if self._rest or self._waiting:
            self._stick(bool(written))
        elif self._stuck:
            self._unstick()
        if self._taken is not None and not self.size:
            self._all_taken()
        if self.crowded and self.size <= ROOM // 2:
            self._has_room()

    def _has_room(self) -> None:
        self.crowded = False
        self._room.set()
        self._roomy()

    def _stick(self, some: bool) -> None:
        if not self._stuck:
            self._stuck = True
            self._loop.add_writer(self._to, self._write)
        elif not some:
            return
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._giving_up = self._loop.call_later(self._patience, self._lose)

    def _unstick(self) -> None:
        if self._stuck:
            self._stuck = False
            self._loop.remove_writer(self._to)
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _lose(self) -> None:
        if not self.gone:
            self.close()
            self._lost()
