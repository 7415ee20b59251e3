"""Expiry timer: fires when the next pending call is overdue."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from surehand.core.clock import Clock, Timer


class ExpiryTimer:
    """One timer for all pending calls of a runtime, set to the earliest of their ends."""

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._timer: Timer | None = None
        self._fires_at = inf

    def schedule(self, expires_at: float | None) -> None:
        """Start the timer, unless it fires earlier anyway."""
        if expires_at is None or expires_at >= self._fires_at:
            return
        self.cancel()
        self._fires_at = expires_at
        self._timer = self._clock.call_later(max(expires_at - self._clock.time(), 0.0), self.fire)

    def fire(self) -> None:
        """Have the overdue calls ended now."""
        self.cancel()
        self._on_due()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._fires_at = inf
