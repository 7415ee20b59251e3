"""Listeners: callbacks and event streams that receive the events of calls."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from weakref import finalize, ref

from surehand.core.events import CallEvent, Event, Listener, Missed

log = logging.getLogger("surehand")


class Listeners:
    """Sync callbacks, called inline. Emitters check `callbacks` first, so that an unheard event is never built."""

    def __init__(self) -> None:
        self.callbacks: tuple[Listener, ...] = ()
        self._held_events: dict[object, Event] = {}

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` for every event, until the returned function is called."""
        self.callbacks = (*self.callbacks, callback)

        def unsubscribe() -> None:
            remaining = list(self.callbacks)
            if callback in remaining:  # remove one entry: the same function may be registered twice
                remaining.remove(callback)
            self.callbacks = tuple(remaining)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Call every listener; an exception of a listener is logged and cannot break the call."""
        for callback in self.callbacks:
            try:
                callback(event)
            except KeyboardInterrupt:
                raise
            except BaseException:  # a listener's CancelledError or SystemExit is not one of the call
                log.exception("A listener raised on %s", type(event).__name__)

    def hold(self, key: object, event: Event) -> None:
        """Keep an event back until `release`: listeners get it once something else is stored."""
        self._held_events[key] = event

    def release(self, key: object) -> None:
        """Emit the event that was kept back under a key, if there is one."""
        event = self._held_events.pop(key, None)
        if event is not None:
            self.emit(event)


class EventBuffer:
    """Buffers at most `size` events for a slower reader; the rest is counted and reported as `Missed`."""

    def __init__(self, size: int = 1000) -> None:
        self._size = size
        self._events: deque[Event] = deque()
        self._missed_count = 0
        self._arrived = asyncio.Event()

    def put(self, event: Event) -> None:
        """Buffer an event, or count it as missed."""
        if len(self._events) < self._size:
            if self._missed_count:  # report the gap where it is, before the next event
                self._events.append(self._take_missed())
            self._events.append(event)
        else:
            self._missed_count += 1
        self._arrived.set()

    def get_nowait(self) -> Event | None:
        """The next buffered event; None if there is none."""
        return self._events.popleft() if self._events else None

    async def get(self) -> Event:
        """Wait for the next event, or `Missed`."""
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
    """Yield events from now on; buffering starts with this call, not with the first read."""
    buffer = EventBuffer()
    unsubscribe = listeners.listen(_build_buffer_listener(ref(buffer), is_wanted))
    # A generator that was never started does not run its `finally`: unsubscribe when the buffer is collected.
    finalize(buffer, unsubscribe).atexit = False
    return _read_events(buffer, unsubscribe)


def _build_buffer_listener(buffer: ref[EventBuffer], is_wanted: Callable[[Event], bool] | None) -> Listener:
    def listen(event: Event) -> None:
        if (open_buffer := buffer()) is not None and (is_wanted is None or is_wanted(event)):
            open_buffer.put(event)

    return listen


async def _read_events(buffer: EventBuffer, unsubscribe: Callable[[], None]) -> AsyncIterator[Event]:
    try:
        while True:
            yield await buffer.get()
    finally:
        unsubscribe()


__all__ = ["CallEvent", "EventBuffer", "Listeners", "stream_events"]
