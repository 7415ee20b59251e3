"""Tail: the newest events of the streams that somebody here follows, read once for all who do."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, Protocol, TypeVar

from surehand.store.database import Database, StoreError, StoreUnavailable

log = logging.getLogger("surehand")
KEPT = 1_000
"""Events of a stream that are kept at hand; whoever is further behind reads by itself."""
FEW = 2
"""Streams up to which it is quicker to read on than to ask first whether there is anything."""
AT_ONCE = 200
"""Streams whose ends one query finds."""
PATIENCE = 1.0
"""Seconds after which it is looked even if nobody was heard to write."""


class Numbered(Protocol):
    """An event with its place in its stream."""

    @property
    def number(self) -> int: ...


E = TypeVar("E", bound=Numbered)
Read = Callable[[str, int, int], Awaitable[list[E]]]


class Channel(Generic[E]):
    """One stream that is followed: its newest events, and those who wait for the next."""

    def __init__(self) -> None:
        self.recent: deque[E] = deque(maxlen=KEPT)
        self.last: int | None = None
        """The newest number that was seen; unknown until somebody has looked."""
        self.followers = 0
        self._waiting: list[asyncio.Future[None]] = []

    def after(self, number: int) -> list[E] | None:
        """What is at hand after a number; None where that is not the whole of it."""
        if self.last is None or number < self.last - len(self.recent):
            return None
        return [self.recent[place] for place in range(number - self.last + len(self.recent), len(self.recent))]

    async def until_after(self, number: int) -> None:
        """Wait until there is something after a number."""
        if self.last is not None and self.last > number:
            return
        arrived = asyncio.get_running_loop().create_future()
        self._waiting.append(arrived)
        try:
            await arrived
        finally:
            with suppress(ValueError):
                self._waiting.remove(arrived)

    def end(self) -> None:
        """There will be no more."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(StoreUnavailable("The store is closed."))

    def add(self, events: list[E]) -> None:
        """These are the next; wake whoever waits."""
        if events and events[0].number != (self.last or 0) + 1:  # some are kept no longer: what is at hand has no gaps
            self.recent.clear()
        self.recent.extend(events)
        if events:
            self.last = events[-1].number
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class Tail(Generic[E]):
    """Looks when somebody has written, and sees for all followers at once. It works only while somebody follows."""

    def __init__(self, database: Database, read: Read[E]) -> None:
        self._database, self._read = database, read
        self._channels: dict[str, Channel[E]] = {}
        self._written = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._quiet: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def following(self, stream: str) -> AsyncIterator[Channel[E]]:
        """The channel of a stream, kept up to date while somebody is in here."""
        channel = self._channels.setdefault(stream, Channel())
        channel.followers += 1
        self._start()
        self.look()
        try:
            yield channel
        finally:
            channel.followers -= 1
            if not channel.followers:
                self._channels.pop(stream, None)
            if not self._channels:
                await self._stop()

    def look(self) -> None:
        """Somebody has written."""
        self._written.set()

    def _start(self) -> None:
        if self._task is None:
            self._quiet = self._database.on_write(self.look)
            self._task = asyncio.get_running_loop().create_task(self._keep_up(), name="surehand tail")

    async def _keep_up(self) -> None:
        warned = False
        while True:
            self._written.clear()
            try:
                await self._catch_up()
                warned = False
            except StoreError as error:
                if not warned:
                    log.warning("Streams cannot be read: %s", error)
                warned = True
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._written.wait()

    async def _catch_up(self) -> None:
        """The first look at a stream only finds its end: whoever wants what is before it reads that itself."""
        channels = list(self._channels.items())
        if len(channels) <= FEW and all(channel.last is not None for _, channel in channels):
            for stream, channel in channels:
                await self._read_on(stream, channel)
            return
        ends = await self._ends([stream for stream, _ in channels])
        for stream, channel in channels:
            if channel.last is None and stream in ends:
                channel.last = ends[stream]
                channel.add([])
            elif channel.last is not None and channel.last < ends.get(stream, 0):
                await self._read_on(stream, channel)

    async def _read_on(self, stream: str, channel: Channel[E]) -> None:
        """A page at a time. Where one cannot be read, its followers find out themselves, and nobody else need."""
        try:
            while events := await self._read(stream, channel.last or 0, KEPT):
                channel.add(events)
                if len(events) < KEPT:
                    return
        except StoreError:
            raise
        except Exception:
            log.exception("The stream %s cannot be read", stream)
            channel.last = None
            channel.wake()

    async def _ends(self, streams: list[str]) -> dict[str, int]:
        """The number of the newest event of each; 0 where nothing has happened yet."""
        ends = dict.fromkeys(streams, 0)
        for start in range(0, len(streams), AT_ONCE):
            names = {f"s{place}": name for place, name in enumerate(streams[start : start + AT_ONCE])}
            listed = ", ".join(f":{name}" for name in names)
            rows = await self._database.read(f"SELECT stream, last FROM streams WHERE stream IN ({listed})", names)
            ends.update((row["stream"], int(row["last"])) for row in rows)
        return ends

    async def close(self) -> None:
        """Nobody can follow any more."""
        for channel in self._channels.values():
            channel.end()
        await self._stop()

    async def _stop(self) -> None:
        self._quiet()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
