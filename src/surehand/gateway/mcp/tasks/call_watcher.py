"""Watch: whoever waits for news of a call is told, wherever it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallPending, CallSettled, Event

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime

POLL_SECONDS = 1.0
"""Seconds after which one looks again: what happens in another process is told to nobody here."""


class CallWatcher:
    """Calls that somebody waits for. Only while there are any is the runtime listened to."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signals: dict[str, list[CallSignal]] = {}
        self._watch_count = 0
        self._stop_listening: Callable[[], None]

    @contextmanager
    def watch(self, *call_ids: str) -> Iterator[CallSignal]:
        """News of these calls."""
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
        """Something about a call is new."""
        for signal in self._signals.get(call_id, ()):
            signal.add(call_id)


class CallSignal:
    """The calls of which there is news; what is not read in time is told once."""

    def __init__(self) -> None:
        self._changed_calls: dict[str, None] = {}
        self._has_changes = asyncio.Event()

    def add(self, call_id: str) -> None:
        self._changed_calls[call_id] = None
        self._has_changes.set()

    async def wait(self, timeout_seconds: float = POLL_SECONDS) -> list[str]:
        """Wait for news, but no longer than a beat."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._has_changes.wait()
        given, self._changed_calls = list(self._changed_calls), {}
        self._has_changes.clear()
        return given
