"""The back-off of a connection: how long to wait before a failed server is started again."""

from __future__ import annotations

import asyncio

from surehand.core.clock import Clock

BACKOFF_DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Delays after the first, second, ... failure in a row; the last one repeats."""
STABLE_AFTER_SECONDS = 10.0
"""Uptime after which earlier failures no longer count."""


class Backoff:
    """Counts failures in a row, and waits for the next attempt."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self.consecutive_failures = 0
        self._retry_at = 0.0
        self._wait_over = asyncio.Event()

    def record_failure(self, uptime_seconds: float) -> None:
        """Count a failure. It is the first in a row only if the server was up for `STABLE_AFTER_SECONDS`."""
        self.consecutive_failures = 1 if uptime_seconds > STABLE_AFTER_SECONDS else self.consecutive_failures + 1
        delay_index = min(self.consecutive_failures, len(BACKOFF_DELAYS_SECONDS)) - 1
        self._retry_at = self._clock.now() + BACKOFF_DELAYS_SECONDS[delay_index]

    def reset(self) -> None:
        """Forget earlier failures: a call was answered."""
        self.consecutive_failures = 0

    @property
    def remaining_seconds(self) -> float:
        """Time until the next attempt."""
        return max(self._retry_at - self._clock.now(), 0.0)

    async def wait(self) -> None:
        """Wait for the next attempt, or for `retry_now`."""
        self._wait_over.clear()
        timer = self._clock.call_later(self.remaining_seconds, self._wait_over.set)
        try:
            await self._wait_over.wait()
        finally:
            timer.cancel()

    def retry_now(self) -> None:
        """End the wait."""
        self._retry_at = 0.0
        self._wait_over.set()
