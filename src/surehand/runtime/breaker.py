"""Breaker: what is known of a provider's health."""

from __future__ import annotations

from surehand.core.clock import Clock
from surehand.core.outcome import Failed, Outcome

DOWN = frozenset({"unavailable", "timed_out"})


class Breaker:
    """Closed while all is well; open after failures in a row; then one call at a time tries."""

    def __init__(self, clock: Clock, failures: int, pause: float) -> None:
        self._clock, self._limit, self._pause = clock, failures, pause
        self._failures = 0
        self._until = 0.0
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether the provider counts as down."""
        return self._failures >= self._limit

    def blocked(self) -> float | None:
        """Seconds to wait, or None if a call may go through."""
        if not self.open:
            return None
        left = self._until - self._clock.now()
        if left > 0 or self._probing:
            return max(left, 0.0)
        self._probing = True
        return None

    def count(self, outcome: Outcome) -> None:
        """Learn from a call that went through."""
        self._probing = False
        if isinstance(outcome, Failed) and outcome.code in DOWN:
            self._failures += 1
            self._until = self._clock.now() + self._pause
        else:
            self._failures = 0

    def probe_lost(self) -> None:
        """The call that tried was cancelled: another may try."""
        self._probing = False
