"""Results: cached outcomes, each for as long as its tool says."""

from __future__ import annotations

import asyncio

from surehand.core.clock import Clock
from surehand.core.outcome import Done

MAX_CACHED_RESULTS = 10_000


class ResultCache:
    """Outcomes by key, at most ten thousand."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Done]] = {}
        self.in_flight: dict[str, asyncio.Future[None]] = {}
        """Keys whose answer is on its way."""

    def get_fresh(self, key: str) -> Done | None:
        """The outcome, if it is still fresh."""
        until, outcome = self._entries.get(key, (0.0, None))
        if outcome is None or until > self._clock.now():
            return outcome and outcome.with_copied_data()
        del self._entries[key]
        return None

    def put(self, key: str, outcome: Done, ttl_seconds: float) -> None:
        """Keep an outcome; the oldest makes room."""
        self._entries.pop(key, None)
        self._entries[key] = (self._clock.now() + ttl_seconds, outcome.with_copied_data())
        while len(self._entries) > MAX_CACHED_RESULTS:
            del self._entries[next(iter(self._entries))]
