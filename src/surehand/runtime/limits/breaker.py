"""Breaker: what is known of a provider's health."""

from __future__ import annotations

from surehand.core.clock import Clock
from surehand.core.outcome import Failed, Outcome

DOWN_CODES = frozenset({"unavailable", "timed_out"})


class Breaker:
    """Closed while all is well; open after failures in a row; then one call at a time tries."""

    def __init__(self, clock: Clock, failure_limit: int, pause_seconds: float) -> None:
        self._clock, self._failure_limit, self._pause_seconds = clock, failure_limit, pause_seconds
        self._failure_count = 0
        self._retry_at = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether the provider counts as down."""
        return self._failure_count >= self._failure_limit

    def admit(self) -> float | None:
        """Seconds to wait, or None if a call may go through."""
        if not self.is_open:
            return None
        left = self._retry_at - self._clock.now()
        if left > 0 or self._is_probing:
            return max(left, 0.0)
        self._is_probing = True
        return None

    def record_outcome(self, outcome: Outcome) -> None:
        """Learn from a call that went through."""
        self._is_probing = False
        if isinstance(outcome, Failed) and outcome.code in DOWN_CODES:
            self._failure_count += 1
            self._retry_at = self._clock.now() + self._pause_seconds
        else:
            self._failure_count = 0

    def release_probe(self) -> None:
        """The call that tried was cancelled: another may try."""
        self._is_probing = False
