"""Waiting for changes of calls, whether they happen in this process or in another one on the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallPending, CallSettled, Event

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime

POLL_SECONDS = 1.0
"""Seconds after which a waiter looks at the store again: there are no events for changes in other processes."""


class CallWatcher:
    """Signals changes of calls to those that wait for them. It listens to the runtime only while a call is watched."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signals: dict[str, list[CallSignal]] = {}
        self._watch_count = 0
        self._stop_listening: Callable[[], None]

    @contextmanager
    def watch(self, *call_ids: str) -> Iterator[CallSignal]:
        """A signal that is set when one of these calls changes."""
        signal = CallSignal()
        if not self._watch_count:
            self._stop_listening = self._runtime.listen(self._on_event)
        self._watch_count += 1
        for call_id in call_ids:
            self._signals.setdefault(call_id, []).append(signal)
        try:
            yield signal
        finally:
            for call_id in call_ids:
                self._remove(call_id, signal)
            self._watch_count -= 1
            if not self._watch_count:
                self._stop_listening()

    def _remove(self, call_id: str, signal: CallSignal) -> None:
        self._signals[call_id].remove(signal)
        if not self._signals[call_id]:
            del self._signals[call_id]

    def _on_event(self, event: Event) -> None:
        if isinstance(event, (CallEnded, CallPending, CallSettled)):
            self.notify(event.call_id)

    def notify(self, call_id: str) -> None:
        """Signal that a call has changed."""
        for signal in self._signals.get(call_id, ()):
            signal.add(call_id)


class CallSignal:
    """The calls that have changed since the last `wait`. Several changes of one call count once."""

    def __init__(self) -> None:
        self._changed_calls: dict[str, None] = {}
        self._has_changes = asyncio.Event()

    def add(self, call_id: str) -> None:
        """Record that a call has changed."""
        self._changed_calls[call_id] = None
        self._has_changes.set()

    async def wait(self, timeout_seconds: float = POLL_SECONDS) -> list[str]:
        """Wait for changes, and return the ids of the changed calls; an empty list after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._has_changes.wait()
        changed_calls = list(self._changed_calls)
        self._changed_calls = {}
        self._has_changes.clear()
        return changed_calls
