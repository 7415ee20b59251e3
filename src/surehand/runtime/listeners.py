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
        self.heard: tuple[Listener, ...] = ()

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call back for every event, until the returned function is called."""
        self.heard = (*self.heard, callback)

        def unsubscribe() -> None:
            left = list(self.heard)
            if callback in left:  # once: the same function may listen twice
                left.remove(callback)
            self.heard = tuple(left)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell everybody; a listener that raises is logged and cannot break a call."""
        for callback in self.heard:
            try:
                callback(event)
            except (Exception, asyncio.CancelledError):  # a cancellation that it raises is not its caller's
                log.exception("A listener raised on %s", type(event).__name__)


class EventBuffer:
    """Events on their way to a slower reader: at most `size`, then the number of those it missed."""

    def __init__(self, size: int = 1000) -> None:
        self._size = size
        self._events: deque[Event] = deque()
        self._missed = 0
        self._arrived = asyncio.Event()

    def put(self, event: Event) -> None:
        """Keep an event, or count it as missed."""
        if len(self._events) < self._size:
            if self._missed:  # told where they are missing, before what comes after them
                self._events.append(self._take_missed())
            self._events.append(event)
        else:
            self._missed += 1
        self._arrived.set()

    def take(self) -> Event | None:
        """The next event that is already here."""
        return self._events.popleft() if self._events else None

    async def get(self) -> Event:
        """The next event, or `Missed`."""
        while not self._events and not self._missed:
            self._arrived.clear()
            await self._arrived.wait()
        if self._events:
            return self._events.popleft()
        return self._take_missed()

    def _take_missed(self) -> Missed:
        missed, self._missed = self._missed, 0
        return Missed(missed)


def events_of(listeners: Listeners, wanted: Callable[[Event], bool] | None = None) -> AsyncIterator[Event]:
    """Events from now on, even before the first is asked for, one after the other."""
    buffer = EventBuffer()
    unsubscribe = listeners.listen(_feeding(ref(buffer), wanted))
    finalize(buffer, unsubscribe).atexit = False  # a reader that never begins to read cannot end by itself
    return _read(buffer, unsubscribe)


def _feeding(buffer: ref[EventBuffer], wanted: Callable[[Event], bool] | None) -> Listener:
    def hear(event: Event) -> None:
        if (open_buffer := buffer()) is not None and (wanted is None or wanted(event)):
            open_buffer.put(event)

    return hear


async def _read(buffer: EventBuffer, unsubscribe: Callable[[], None]) -> AsyncIterator[Event]:
    try:
        while True:
            yield await buffer.get()
    finally:
        unsubscribe()


__all__ = ["CallEvent", "EventBuffer", "Listeners", "events_of"]
