"""Backoff: how long a broken server is left alone."""

from __future__ import annotations

import asyncio

from surehand.core.clock import Clock

DELAYS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before each further try; the last is repeated."""
STEADY = 10.0
"""Seconds after which a server that came up counts as well again."""


class Backoff:
    """Counts failures in a row, and waits."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self.failures = 0
        self._until = 0.0
        self._over = asyncio.Event()

    def count(self, lasted: float) -> None:
        """One more. A server that comes up and dies at once is no better than one that does not come up."""
        self.failures = 1 if lasted > STEADY else self.failures + 1
        self._until = self._clock.now() + DELAYS[min(self.failures, len(DELAYS)) - 1]

    def forget(self) -> None:
        """All is well again."""
        self.failures = 0

    @property
    def left(self) -> float:
        """Seconds until the next try."""
        return max(self._until - self._clock.now(), 0.0)

    async def wait(self) -> None:
        """Until it is time, or somebody cannot wait."""
        self._over.clear()
        timer = self._clock.call_later(self.left, self._over.set)
        try:
            await self._over.wait()
        finally:
            timer.cancel()

    def cut_short(self) -> None:
        """Try now."""
        self._until = 0.0
        self._over.set()
