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
MAX_RECENT_EVENTS = 1_000
"""Events of a stream that are kept at hand; whoever is further behind reads by itself."""
MAX_STREAMS_READ_DIRECTLY = 2
"""Streams up to which it is quicker to read on than to ask first whether there is anything."""
STREAMS_PER_QUERY = 200
"""Streams whose ends one query finds."""
POLL_SECONDS = 1.0
"""Seconds after which it is looked even if nobody was heard to write."""


class NumberedEvent(Protocol):
    """An event with its place in its stream."""

    @property
    def number(self) -> int: ...


E = TypeVar("E", bound=NumberedEvent)
ReadEvents = Callable[[str, int, int], Awaitable[list[E]]]


class FollowedStream(Generic[E]):
    """One stream that is followed: its newest events, and those who wait for the next."""

    def __init__(self) -> None:
        self.recent: deque[E] = deque(maxlen=MAX_RECENT_EVENTS)
        self.last_number: int | None = None
        """The newest number that was seen; unknown until somebody has looked."""
        self.follower_count = 0
        self._waiters: list[asyncio.Future[None]] = []

    def events_after(self, number: int) -> list[E] | None:
        """What is at hand after a number; None where that is not the whole of it."""
        if self.last_number is None or number < self.last_number - len(self.recent):
            return None
        return [self.recent[place] for place in range(number - self.last_number + len(self.recent), len(self.recent))]

    async def wait_for_event_after(self, number: int) -> None:
        """Wait until there is something after a number."""
        if self.last_number is not None and self.last_number > number:
            return
        arrived = asyncio.get_running_loop().create_future()
        self._waiters.append(arrived)
        try:
            await arrived
        finally:
            with suppress(ValueError):
                self._waiters.remove(arrived)

    def close(self) -> None:
        """There will be no more."""
        waiting, self._waiters = self._waiters, []
        for each in waiting:
            if not each.done():
                each.set_exception(StoreUnavailable("The store is closed."))

    def add(self, events: list[E]) -> None:
        """These are the next; wake whoever waits."""
        if (
            events and events[0].number != (self.last_number or 0) + 1
        ):  # some are kept no longer: what is at hand has no gaps
            self.recent.clear()
        self.recent.extend(events)
        if events:
            self.last_number = events[-1].number
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        waiting, self._waiters = self._waiters, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class StreamTail(Generic[E]):
    """Looks when somebody has written, and sees for all followers at once. It works only while somebody follows."""

    def __init__(self, database: Database, read: ReadEvents[E]) -> None:
        self._database, self._read_events = database, read
        self._followed_streams: dict[str, FollowedStream[E]] = {}
        self._write_noticed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncIterator[FollowedStream[E]]:
        """The channel of a stream, kept up to date while somebody is in here."""
        channel = self._followed_streams.setdefault(stream, FollowedStream())
        channel.follower_count += 1
        self._start()
        self.notify_written()
        try:
            yield channel
        finally:
            channel.follower_count -= 1
            if not channel.follower_count:
                self._followed_streams.pop(stream, None)
            if not self._followed_streams:
                await self._stop()

    def notify_written(self) -> None:
        """Somebody has written."""
        self._write_noticed.set()

    def _start(self) -> None:
        if self._task is None:
            self._unsubscribe = self._database.on_write(self.notify_written)
            self._task = asyncio.get_running_loop().create_task(self._run(), name="surehand tail")

    async def _run(self) -> None:
        warned = False
        while True:
            self._write_noticed.clear()
            try:
                await self._catch_up()
                warned = False
            except StoreError as error:
                if not warned:
                    log.warning("Streams cannot be read: %s", error)
                warned = True
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._write_noticed.wait()

    async def _catch_up(self) -> None:
        """The first look at a stream only finds its end: whoever wants what is before it reads that itself."""
        channels = list(self._followed_streams.items())
        if len(channels) <= MAX_STREAMS_READ_DIRECTLY and all(
            channel.last_number is not None for _, channel in channels
        ):
            for stream, channel in channels:
                await self._read_new_events(stream, channel)
            return
        ends = await self._last_numbers([stream for stream, _ in channels])
        for stream, channel in channels:
            if channel.last_number is None and stream in ends:
                channel.last_number = ends[stream]
                channel.add([])
            elif channel.last_number is not None and channel.last_number < ends.get(stream, 0):
                await self._read_new_events(stream, channel)

    async def _read_new_events(self, stream: str, followed: FollowedStream[E]) -> None:
        """A page at a time. Where one cannot be read, its followers find out themselves, and nobody else need."""
        try:
            while events := await self._read_events(stream, followed.last_number or 0, MAX_RECENT_EVENTS):
                followed.add(events)
                if len(events) < MAX_RECENT_EVENTS:
                    return
        except StoreError:
            raise
        except Exception:
            log.exception("The stream %s cannot be read", stream)
            followed.last_number = None
            followed.wake()

    async def _last_numbers(self, streams: list[str]) -> dict[str, int]:
        """The number of the newest event of each; 0 where nothing has happened yet."""
        ends = dict.fromkeys(streams, 0)
        for start in range(0, len(streams), STREAMS_PER_QUERY):
            names = {f"s{place}": name for place, name in enumerate(streams[start : start + STREAMS_PER_QUERY])}
            listed = ", ".join(f":{name}" for name in names)
            rows = await self._database.read(f"SELECT stream, last FROM streams WHERE stream IN ({listed})", names)
            ends.update((row["stream"], int(row["last"])) for row in rows)
        return ends

    async def close(self) -> None:
        """Nobody can follow any more."""
        for channel in self._followed_streams.values():
            channel.close()
        await self._stop()

    async def _stop(self) -> None:
        self._unsubscribe()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
