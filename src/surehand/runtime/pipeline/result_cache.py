"""Result cache: outcomes that the stage `cache` may return again, each for the time that its tool allows."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from surehand.core.clock import Clock
from surehand.core.outcome import Done
from surehand.runtime.limits.deadlocks import Hold

MAX_CACHED_RESULTS = 10_000


class SharedFlight:
    """A call that is computing a result, while equal calls wait for it."""

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def busy_holds(self) -> Collection[Hold] | None:
        """What the computing call holds."""
        return (self.hold,)


class ResultCache:
    """Outcomes by key, at most `MAX_CACHED_RESULTS`, and the keys that are being computed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Done]] = {}
        self.in_flight: dict[str, SharedFlight] = {}
        """The calls that are computing a result now, by key."""

    def get_fresh(self, key: str) -> Done | None:
        """A copy of the cached outcome, unless it has expired."""
        expires_at, outcome = self._entries.get(key, (0.0, None))
        if outcome is None or expires_at > self._clock.now():
            return outcome and outcome.with_copied_data()
        del self._entries[key]
        return None

    def put(self, key: str, outcome: Done, ttl_seconds: float) -> None:
        """Store a copy of an outcome; the oldest entry is evicted."""
        self._entries.pop(key, None)
        self._entries[key] = (self._clock.now() + ttl_seconds, outcome.with_copied_data())
        while len(self._entries) > MAX_CACHED_RESULTS:
            del self._entries[next(iter(self._entries))]
