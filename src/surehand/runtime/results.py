"""Results: cached outcomes, each for as long as its tool says."""

from __future__ import annotations

import asyncio

from surehand.core.clock import Clock
from surehand.core.outcome import Done

KEPT = 10_000


class Results:
    """Outcomes by key, at most ten thousand."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Done]] = {}
        self.flights: dict[str, asyncio.Future[None]] = {}
        """Keys whose answer is on its way."""

    def fresh(self, key: str) -> Done | None:
        """The outcome, if it is still fresh."""
        until, outcome = self._kept.get(key, (0.0, None))
        if outcome is None or until > self._clock.now():
            return outcome and outcome.apart()
        del self._kept[key]
        return None

    def keep(self, key: str, outcome: Done, ttl: float) -> None:
        """Keep an outcome; the oldest makes room."""
        self._kept.pop(key, None)
        self._kept[key] = (self._clock.now() + ttl, outcome.apart())
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
