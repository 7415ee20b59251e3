"""The tail of the followed streams: new events are read once and shared by all readers in this process.

`StreamTable.follow` uses it. A background task runs only while at least one stream is followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, Protocol, TypeVar

from surehand.store.database import Database, StoreError, StoreUnavailable
from surehand.store.queries import load_queries

log = logging.getLogger("surehand")
MAX_RECENT_EVENTS = 1_000
"""Events of a stream that are kept in memory; a reader that is further behind reads the table itself."""
MAX_STREAMS_READ_DIRECTLY = 2
"""Up to this number of streams, reading them is faster than first asking which have new events."""
STREAMS_PER_QUERY = 200
POLL_SECONDS = 1.0
"""New events are looked for at least this often, even without a notification."""

_SQL = load_queries("streams")


class NumberedEvent(Protocol):
    """An event with its number in its stream."""

    @property
    def number(self) -> int: ...


E = TypeVar("E", bound=NumberedEvent)
ReadEvents = Callable[[str, int, int], Awaitable[list[E]]]
"""Reads the events of a stream after a number, up to a limit."""


class FollowedStream(Generic[E]):
    """One followed stream: its newest events, and the readers that wait for the next one."""

    def __init__(self) -> None:
        self.recent: deque[E] = deque(maxlen=MAX_RECENT_EVENTS)
        self.last_number: int | None = None
        """The newest number seen; None before the first look at the stream."""
        self.follower_count = 0
        self._waiters: list[asyncio.Future[None]] = []

    def events_after(self, number: int) -> list[E] | None:
        """Return the events after a number; None if not all of them are in memory."""
        if self.last_number is None:
            return None
        start = number - self.last_number + len(self.recent)
        if start < 0:
            return None
        return [self.recent[index] for index in range(start, len(self.recent))]

    async def wait_for_event_after(self, number: int) -> None:
        """Wait until there is an event after a number."""
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
        """End all waiting readers with an error."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(StoreUnavailable("The store is closed."))

    def add(self, events: list[E]) -> None:
        """Append the next events and wake the readers."""
        if events and events[0].number != (self.last_number or 0) + 1:
            self.recent.clear()  # some events were deleted: the ones in memory must have no gaps
        self.recent.extend(events)
        if events:
            self.last_number = events[-1].number
        self.wake()

    def wake(self) -> None:
        """Let all waiting readers look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class StreamTail(Generic[E]):
    """Reads new events of all followed streams after a write, on behalf of all readers."""

    def __init__(self, database: Database, read: ReadEvents[E]) -> None:
        self._database = database
        self._read_events = read
        self._followed_streams: dict[str, FollowedStream[E]] = {}
        self._write_noticed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncIterator[FollowedStream[E]]:
        """Keep a stream up to date while the context is entered."""
        followed = self._followed_streams.setdefault(stream, FollowedStream())
        followed.follower_count += 1
        self._start()
        self.notify_written()
        try:
            yield followed
        finally:
            followed.follower_count -= 1
            if not followed.follower_count:
                self._followed_streams.pop(stream, None)
            if not self._followed_streams:
                await self._stop()

    def notify_written(self) -> None:
        """Look for new events now."""
        self._write_noticed.set()

    def _start(self) -> None:
        if self._task is None:
            self._unsubscribe = self._database.on_write(self.notify_written)
            self._task = asyncio.get_running_loop().create_task(self._run(), name="surehand tail")

    async def _run(self) -> None:
        has_warned = False
        while True:
            self._write_noticed.clear()  # before the read: a write during it sets the event again
            try:
                await self._catch_up()
                has_warned = False
            except StoreError as error:
                if not has_warned:
                    log.warning("Streams cannot be read: %s", error)
                has_warned = True
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._write_noticed.wait()

    async def _catch_up(self) -> None:
        """Read new events. The first look at a stream only finds its end: its readers read older events themselves."""
        streams = list(self._followed_streams.items())
        if len(streams) <= MAX_STREAMS_READ_DIRECTLY and all(
            followed.last_number is not None for _, followed in streams
        ):
            for stream, followed in streams:
                await self._read_new_events(stream, followed)
            return
        last_numbers = await self._last_numbers([stream for stream, _ in streams])
        for stream, followed in streams:
            if followed.last_number is None and stream in last_numbers:
                followed.last_number = last_numbers[stream]
                followed.add([])
            elif followed.last_number is not None and followed.last_number < last_numbers.get(stream, 0):
                await self._read_new_events(stream, followed)

    async def _read_new_events(self, stream: str, followed: FollowedStream[E]) -> None:
        """Read page by page. If a stream cannot be read, only its own readers get the error, when they read it."""
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
        """Return the number of the newest event of each stream; 0 if it has none."""
        last_numbers = dict.fromkeys(streams, 0)
        for start in range(0, len(streams), STREAMS_PER_QUERY):
            params = {f"s{index}": name for index, name in enumerate(streams[start : start + STREAMS_PER_QUERY])}
            placeholders = ", ".join(f":{name}" for name in params)
            sql = _SQL["list_last_numbers"].replace("{streams}", placeholders)
            rows = await self._database.read(sql, params)
            last_numbers.update((row["stream"], int(row["last"])) for row in rows)
        return last_numbers

    async def close(self) -> None:
        """End all readers."""
        for followed in self._followed_streams.values():
            followed.close()
        await self._stop()

    async def _stop(self) -> None:
        self._unsubscribe()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
