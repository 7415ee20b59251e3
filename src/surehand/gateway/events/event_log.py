"""Event logs: where numbered events are kept, in memory or in the store, so that a client can read on where it stopped.

`feed.EventFeed` writes to a log and sends what the log publishes to its listeners.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from surehand.core.events import Missed
from surehand.store.database import StoreError
from surehand.store.tables.streams import event_statements

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
GATEWAY_STREAM = "gateway"
"""The stream of the store that holds the events of all gateways on it."""
MAX_EVENTS_IN_MEMORY = 10_000
MAX_UNWRITTEN_EVENTS = 10_000
EVENTS_PER_WRITE = 200
EVENTS_PER_PAGE = 500
WRITE_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as JSON, under the number by which a client reads on after it."""

    number: int
    fields: dict[str, Any]
    frames: dict[str | None, bytes] = field(default_factory=dict, compare=False)
    """The event as it is sent, by family: written once, however many clients listen."""


Publish = Callable[[Sequence[LoggedEvent]], None]


class EventLog(Protocol):
    """Keeps events under growing numbers, and publishes each once it is kept."""

    epoch: str
    """Names the numbering; it is empty if numbers stay valid over a restart."""

    @property
    def last_number(self) -> int:
        """The number of the newest published event; 0 if there is none."""

    def append(self, fields: dict[str, Any]) -> None:
        """Keep an event and publish it, maybe a moment later."""

    def read_after(self, number: int) -> AsyncIterator[LoggedEvent | Missed]:
        """Yield the published events after a number. `Missed` stands for those that are not kept any more."""

    async def wait_until_published(self) -> None:
        """Wait until the events that were appended so far are published."""

    def run(self, publish: Publish) -> Any:
        """An async context in which events are kept and published."""


class MemoryEventLog:
    """The newest events of this process, for a runtime without a store."""

    def __init__(self) -> None:
        self.epoch = token_hex(4)
        self.last_number = 0
        self._events: deque[LoggedEvent] = deque(maxlen=MAX_EVENTS_IN_MEMORY)
        self._publish: Publish = lambda events: None

    def append(self, fields: dict[str, Any]) -> None:
        self.last_number += 1
        event = LoggedEvent(self.last_number, fields)
        self._events.append(event)
        self._publish([event])

    async def read_after(self, number: int) -> AsyncIterator[LoggedEvent | Missed]:
        events = [each for each in self._events if each.number > number]
        first = events[0].number if events else self.last_number + 1
        if first > number + 1:
            yield Missed(first - number - 1)
        for each in events:
            yield each

    async def wait_until_published(self) -> None:
        pass  # each is published when it is appended

    def newest_first(self) -> list[LoggedEvent]:
        """All events that are kept, newest first."""
        return [*reversed(self._events)]

    @asynccontextmanager
    async def run(self, publish: Publish) -> AsyncIterator[None]:
        self._publish = publish
        try:
            yield
        finally:
            self._publish = lambda events: None


class StoredEventLog:
    """Events in a stream of the store. Every gateway on the store adds to it, and publishes what all of them add."""

    epoch = ""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.last_number = 0
        self._unwritten: deque[dict[str, Any]] = deque()
        self._has_events = asyncio.Event()
        self._has_written_all = asyncio.Event()
        self._has_written_all.set()
        self._has_published = asyncio.Event()

    def append(self, fields: dict[str, Any]) -> None:
        if len(self._unwritten) >= MAX_UNWRITTEN_EVENTS:  # the store has been unavailable for a while
            self._drop()
            return
        self._unwritten.append(fields)
        self._has_written_all.clear()
        self._has_events.set()

    def _drop(self) -> None:
        """Count an event that is not kept, in the row `Missed` at its place among the others."""
        if self._unwritten[-1]["type"] != "Missed":
            self._unwritten.append({"type": "Missed", "count": 0})
        self._unwritten[-1]["count"] += 1  # it is not being written: many events are before it

    async def read_after(self, number: int) -> AsyncIterator[LoggedEvent | Missed]:
        last_number = self.last_number
        while number < last_number:
            page = await self._store.streams.read(GATEWAY_STREAM, number, EVENTS_PER_PAGE)
            if not page:
                yield Missed(last_number - number)
                return
            if page[0].number > number + 1:
                yield Missed(page[0].number - number - 1)
            for each in page:
                if each.number > last_number:
                    return
                yield LoggedEvent(each.number, each.data)
            number = page[-1].number

    async def wait_until_published(self) -> None:
        await self._has_written_all.wait()
        last_number = await self._store.streams.last(GATEWAY_STREAM)
        while self.last_number < last_number:
            self._has_published.clear()
            await self._has_published.wait()

    @asynccontextmanager
    async def run(self, publish: Publish) -> AsyncIterator[None]:
        self.last_number = await self._store.streams.last(GATEWAY_STREAM)
        writer = asyncio.create_task(self._write_all(), name="gateway: write events")
        reader = asyncio.create_task(self._publish_all(publish), name="gateway: publish events")
        try:
            yield
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_RETRY_SECONDS):
                    await self._has_written_all.wait()
            for task in (writer, reader):
                task.cancel()
            await asyncio.wait({writer, reader})

    async def _write_all(self) -> None:
        has_warned = False
        while True:
            await self._has_events.wait()
            self._has_events.clear()
            while self._unwritten:
                batch = [self._unwritten[index] for index in range(min(len(self._unwritten), EVENTS_PER_WRITE))]
                try:
                    await self._write(batch)
                    has_warned = False
                except StoreError as error:
                    if not has_warned:
                        log.warning("Events of the gateway cannot be written yet: %s", error)
                    has_warned = True
                    await asyncio.sleep(WRITE_RETRY_SECONDS)
                    continue
                for _ in batch:
                    self._unwritten.popleft()
            self._has_written_all.set()

    async def _write(self, batch: list[dict[str, Any]]) -> None:
        statements = [part for each in batch for part in event_statements(GATEWAY_STREAM, "gateway.event", each)]
        await self._store.write(statements)
        self._store.streams.notify_written()

    async def _publish_all(self, publish: Publish) -> None:
        while True:
            try:
                async for each in self._store.streams.follow(GATEWAY_STREAM, self.last_number):
                    if isinstance(each, Missed):  # deleted unread: a client is told when it reads on after them
                        self.last_number += each.count
                        self._has_published.set()
                        continue
                    self.last_number = each.number
                    publish([LoggedEvent(each.number, each.data)])
                    self._has_published.set()
            except StoreError as error:
                log.warning("Events of the gateway cannot be read now: %s", error)
            await asyncio.sleep(WRITE_RETRY_SECONDS)
