"""EventFeed: receives the events of a runtime, keeps them in a log, and passes what the log publishes to listeners."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from surehand.core.events import CatalogueChanged, Event, Missed, SpaceMessageDelta, TextDelta, ToolInputDelta
from surehand.gateway.events.delta_buffer import DeltaBuffer
from surehand.gateway.events.event_json import LOGGED_EVENTS, RUN_EVENTS, event_to_json, run_event_to_json
from surehand.gateway.events.event_log import EventLog, LoggedEvent, MemoryEventLog, StoredEventLog
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime

MAX_BUFFERED_EVENTS = 1_000
"""Events that wait for one listener; further ones are counted, and the listener is told how many it missed."""
LAST_EVENTS_SECONDS = 2.0
"""How long the events of the last calls may take to reach their clients when the gateway stops."""
IsVisible = Callable[[dict[str, Any]], bool]


class EventListener:
    """The events for one client, from the moment it was created. A client that does not read them misses some."""

    def __init__(self, is_visible: IsVisible, *, ends_at_shutdown: bool = True) -> None:
        """`ends_at_shutdown`: whether it ends as soon as the gateway begins to stop, while calls still run."""
        self._is_visible = is_visible
        self.ends_at_shutdown = ends_at_shutdown
        self._events: deque[LoggedEvent] = deque()
        self._missed_count = 0
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self.is_closed = False
        """Whether no event follows, because the gateway is shutting down."""

    def put(self, events: Sequence[LoggedEvent]) -> None:
        """Buffer the events that the client may see, or count them as missed."""
        wanted = [each for each in events if self._is_visible(each.fields)]
        room = MAX_BUFFERED_EVENTS - len(self._events)
        self._events.extend(wanted[:room])
        self._missed_count += max(len(wanted) - room, 0)
        if wanted:
            self._has_news.set()

    async def put_when_read(self, event: LoggedEvent | Missed) -> None:
        """Buffer an event as soon as the client has read enough of the earlier ones, so that it misses none."""
        while len(self._events) >= MAX_BUFFERED_EVENTS:
            self._has_room.clear()
            await self._has_room.wait()
        if isinstance(event, Missed):
            self._missed_count += event.count
            self._has_news.set()
        else:
            self.put([event])

    def close(self) -> None:
        """End the listener once it has read what is buffered."""
        self.is_closed = True
        self._has_news.set()

    async def wait(self, seconds: float) -> list[LoggedEvent | Missed]:
        """The buffered events, as soon as there are any; an empty list when the time is over or nothing follows."""
        if not self._has_news.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._has_news.wait()
            except TimeoutError:
                return []
        if not self.is_closed:
            self._has_news.clear()
        news: list[LoggedEvent | Missed] = [*self._events]
        self._events.clear()
        self._has_room.set()
        if self._missed_count:
            news.append(Missed(self._missed_count))
            self._missed_count = 0
        return news


class EventFeed:
    """All events of the calls of a runtime, numbered, for any number of listeners."""

    def __init__(self) -> None:
        self.event_log: EventLog = MemoryEventLog()
        self._listeners: set[EventListener] = set()
        self._observers: list[Callable[[LoggedEvent], object]] = []
        self._deltas = DeltaBuffer(lambda delta: self.event_log.append(run_event_to_json(delta)))
        # In a buffer of its own, because a piece of a call's arguments comes with each piece of its message.
        self._message_deltas = DeltaBuffer(lambda delta: self.event_log.append(run_event_to_json(delta)))
        self.is_closing = False

    @property
    def listener_count(self) -> int:
        """How many clients listen."""
        return len(self._listeners)

    @asynccontextmanager
    async def run(self, runtime: Runtime) -> AsyncIterator[None]:
        """Receive the events of an open runtime while the context is entered."""
        store = runtime.store if runtime.is_durable else None
        if store is not None and not store.database.is_read_only:
            self.event_log = StoredEventLog(store)
        async with self.event_log.run(self._publish):
            unsubscribe = runtime.listen(self._receive)
            try:
                yield
            finally:
                unsubscribe()
                self._deltas.flush_all()
                self._message_deltas.flush_all()
                with suppress(StoreError, TimeoutError):
                    async with asyncio.timeout(LAST_EVENTS_SECONDS):
                        await self.event_log.wait_until_published()
                self._close(self._listeners)

    def _receive(self, event: Event) -> None:
        if isinstance(event, (TextDelta, ToolInputDelta)):
            self._deltas.add(event)
        elif isinstance(event, SpaceMessageDelta):
            self._message_deltas.add(event)
        elif isinstance(event, RUN_EVENTS):
            self._flush_deltas(event.run_id)
            self.event_log.append(run_event_to_json(event))
        elif isinstance(event, LOGGED_EVENTS):
            if not isinstance(event, CatalogueChanged) and event.turn is not None:
                self._flush_deltas(event.turn)
            self.event_log.append(event_to_json(event))

    def _flush_deltas(self, run_id: str) -> None:
        for buffer in (self._deltas, self._message_deltas):
            buffer.flush(run_id)

    def add(self, fields: dict[str, Any]) -> None:
        """Add an event that this runtime did not emit, because its process is another one, or has died."""
        self.event_log.append(fields)

    def newest_events(self) -> list[LoggedEvent]:
        """The events that are kept in memory, newest first; none if the store keeps them."""
        return self.event_log.newest_first() if isinstance(self.event_log, MemoryEventLog) else []

    def events_of_call(self, call_id: str) -> list[LoggedEvent]:
        """The events of a call that are kept in memory, oldest first."""
        return [each for each in reversed(self.newest_events()) if _is_of_call(each, call_id)]

    def observe(self, callback: Callable[[LoggedEvent], object]) -> None:
        """Call a function for every published event, before the listeners get it."""
        self._observers.append(callback)

    def _publish(self, events: Sequence[LoggedEvent]) -> None:
        for each in events:
            for observer in self._observers:
                observer(each)
        for listener in self._listeners:
            listener.put(events)

    @asynccontextmanager
    async def listen(self, is_visible: IsVisible, *, ends_at_shutdown: bool = True) -> AsyncIterator[EventListener]:
        """A listener for the events that a client may see, while the context is entered."""
        listener = EventListener(is_visible, ends_at_shutdown=ends_at_shutdown)
        if self.is_closing and ends_at_shutdown:
            listener.close()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close_listeners(self) -> None:
        """End the listeners that end at a shutdown, and every later one at once: the gateway begins to stop.

        Those of requests that made a call or a run stay: they get the end of it.
        """
        self.is_closing = True
        self._close(each for each in self._listeners if each.ends_at_shutdown)

    def _close(self, listeners: Iterable[EventListener]) -> None:
        for each in listeners:
            each.close()

    def parse_event_id(self, event_id: str) -> int | None:
        """The number of an event id; None if it is from an earlier process, whose events are lost.

        Raises `ValueError` for what was never an id.
        """
        epoch, dash, number = event_id.rpartition("-")
        if not number.isascii() or not number.isdigit() or len(number) > 18 or (dash and not epoch):
            raise ValueError(f"{event_id[:80]!r} is not the id of an event.")
        return int(number) if epoch == self.event_log.epoch else None


def _is_of_call(event: LoggedEvent, call_id: str) -> bool:
    return event.fields.get("call_id") == call_id and "run_id" not in event.fields


def format_event_id(epoch: str, number: int) -> str:
    """The id under which clients read on after an event."""
    return f"{epoch}-{number}" if epoch else str(number)
