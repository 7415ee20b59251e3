"""Backoff: how long a broken server is left alone."""

from __future__ import annotations

import asyncio

from surehand.core.clock import Clock

BACKOFF_DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before each further try; the last is repeated."""
STABLE_AFTER_SECONDS = 10.0
"""Seconds after which a server that came up counts as well again."""


class Backoff:
    """Counts failures in a row, and waits."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self.consecutive_failures = 0
        self._retry_at = 0.0
        self._wait_over = asyncio.Event()

    def record_failure(self, uptime_seconds: float) -> None:
        """One more. A server that comes up and dies at once is no better than one that does not come up."""
        self.consecutive_failures = 1 if uptime_seconds > STABLE_AFTER_SECONDS else self.consecutive_failures + 1
        self._retry_at = (
            self._clock.now() + BACKOFF_DELAYS_SECONDS[min(self.consecutive_failures, len(BACKOFF_DELAYS_SECONDS)) - 1]
        )

    def reset(self) -> None:
        """All is well again."""
        self.consecutive_failures = 0

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the next try."""
        return max(self._retry_at - self._clock.now(), 0.0)

    async def wait(self) -> None:
        """Until it is time, or somebody cannot wait."""
        self._wait_over.clear()
        timer = self._clock.call_later(self.remaining_seconds, self._wait_over.set)
        try:
            await self._wait_over.wait()
        finally:
            timer.cancel()

    def retry_now(self) -> None:
        """Try now."""
        self._retry_at = 0.0
        self._wait_over.set()
