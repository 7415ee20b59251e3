"""Watch: whoever waits for news of a call is told, wherever it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallPending, CallSettled, Event

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime

BEAT = 1.0
"""Seconds after which one looks again: what happens in another process is told to nobody here."""


class Watch:
    """Calls that somebody waits for. Only while there are any is the runtime listened to."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signals: dict[str, list[Signal]] = {}
        self._listeners = 0
        self._unlisten: Callable[[], None]

    @contextmanager
    def on(self, *call_ids: str) -> Iterator[Signal]:
        """News of these calls."""
        signal = Signal()
        if not self._listeners:
            self._unlisten = self._runtime.listen(self._hear)
        self._listeners += 1
        for call_id in call_ids:
            self._signals.setdefault(call_id, []).append(signal)
        try:
            yield signal
        finally:
            for call_id in call_ids:
                self._leave(call_id, signal)
            self._listeners -= 1
            if not self._listeners:
                self._unlisten()

    def _leave(self, call_id: str, signal: Signal) -> None:
        self._signals[call_id].remove(signal)
        if not self._signals[call_id]:
            del self._signals[call_id]

    def _hear(self, event: Event) -> None:
        if isinstance(event, (CallEnded, CallPending, CallSettled)):
            self.tell(event.call_id)

    def tell(self, call_id: str) -> None:
        """Something about a call is new."""
        for signal in self._signals.get(call_id, ()):
            signal.give(call_id)


class Signal:
    """The calls of which there is news; what is not read in time is told once."""

    def __init__(self) -> None:
        self._given: dict[str, None] = {}
        self._arrived = asyncio.Event()

    def give(self, call_id: str) -> None:
        self._given[call_id] = None
        self._arrived.set()

    async def news(self, beat: float = BEAT) -> list[str]:
        """Wait for news, but no longer than a beat."""
        with suppress(TimeoutError):
            async with asyncio.timeout(beat):
                await self._arrived.wait()
        given, self._given = list(self._given), {}
        self._arrived.clear()
        return given
