"""Listeners: everybody who wants to hear what happens to calls."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from weakref import finalize, ref

from surehand.core.events import CallEvent, Event, Listener, Missed

log = logging.getLogger("surehand")


class Listeners:
    """Sync callbacks, called inline. `heard` is empty when nobody listens, so that no event need be made."""

    def __init__(self) -> None:
        self.callbacks: tuple[Listener, ...] = ()

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call back for every event, until the returned function is called."""
        self.callbacks = (*self.callbacks, callback)

        def unsubscribe() -> None:
            left = list(self.callbacks)
            if callback in left:  # once: the same function may listen twice
                left.remove(callback)
            self.callbacks = tuple(left)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell everybody; a listener that raises is logged and cannot break a call."""
        for callback in self.callbacks:
            try:
                callback(event)
            except (Exception, asyncio.CancelledError):  # a cancellation that it raises is not its caller's
                log.exception("A listener raised on %s", type(event).__name__)


class EventBuffer:
    """Events on their way to a slower reader: at most `size`, then the number of those it missed."""

    def __init__(self, size: int = 1000) -> None:
        self._size = size
        self._events: deque[Event] = deque()
        self._missed_count = 0
        self._arrived = asyncio.Event()

    def put(self, event: Event) -> None:
        """Keep an event, or count it as missed."""
        if len(self._events) < self._size:
            if self._missed_count:  # told where they are missing, before what comes after them
                self._events.append(self._take_missed())
            self._events.append(event)
        else:
            self._missed_count += 1
        self._arrived.set()

    def get_nowait(self) -> Event | None:
        """The next event that is already here."""
        return self._events.popleft() if self._events else None

    async def get(self) -> Event:
        """The next event, or `Missed`."""
        while not self._events and not self._missed_count:
            self._arrived.clear()
            await self._arrived.wait()
        if self._events:
            return self._events.popleft()
        return self._take_missed()

    def _take_missed(self) -> Missed:
        missed, self._missed_count = self._missed_count, 0
        return Missed(missed)


def stream_events(listeners: Listeners, is_wanted: Callable[[Event], bool] | None = None) -> AsyncIterator[Event]:
    """Events from now on, even before the first is asked for, one after the other."""
    buffer = EventBuffer()
    unsubscribe = listeners.listen(_build_buffer_listener(ref(buffer), is_wanted))
    finalize(buffer, unsubscribe).atexit = False  # a reader that never begins to read cannot end by itself
    return _read_events(buffer, unsubscribe)


def _build_buffer_listener(buffer: ref[EventBuffer], is_wanted: Callable[[Event], bool] | None) -> Listener:
    def hear(event: Event) -> None:
        if (open_buffer := buffer()) is not None and (is_wanted is None or is_wanted(event)):
            open_buffer.put(event)

    return hear


async def _read_events(buffer: EventBuffer, unsubscribe: Callable[[], None]) -> AsyncIterator[Event]:
    try:
        while True:
            yield await buffer.get()
    finally:
        unsubscribe()


__all__ = ["CallEvent", "EventBuffer", "Listeners", "stream_events"]
