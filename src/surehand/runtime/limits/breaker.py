"""Circuit breaker: stops calls to a provider that keeps failing."""

from __future__ import annotations

from surehand.core.clock import Clock
from surehand.core.outcome import Failed, Outcome

DOWN_CODES = frozenset({"unavailable", "timed_out"})
"""Failure codes that count against the provider."""


class Breaker:
    """Opens after several failures in a row; after a pause, one call at a time probes the provider."""

    def __init__(self, clock: Clock, failure_limit: int, pause_seconds: float) -> None:
        self._clock = clock
        self._failure_limit = failure_limit
        self._pause_seconds = pause_seconds
        self._failure_count = 0
        self._retry_at = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether the provider counts as down."""
        return self._failure_count >= self._failure_limit

    def admit(self) -> float | None:
        """None if a call may pass, as the probe if the breaker is open; else the seconds until the next probe."""
        if not self.is_open:
            return None
        remaining = self._retry_at - self._clock.now()
        if remaining > 0 or self._is_probing:
            return max(remaining, 0.0)
        self._is_probing = True
        return None

    def record_outcome(self, outcome: Outcome) -> None:
        """Count the outcome of a call that reached the provider."""
        self._is_probing = False
        if isinstance(outcome, Failed) and outcome.code in DOWN_CODES:
            self._failure_count += 1
            self._retry_at = self._clock.now() + self._pause_seconds
        else:
            self._failure_count = 0

    def release_probe(self) -> None:
        """Let another call probe: the last one did not reach the provider."""
        self._is_probing = False
