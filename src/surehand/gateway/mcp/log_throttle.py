"""Seldom: what strangers can cause as often as they like is told now and then."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("surehand")
THROTTLE_SECONDS = 60.0


class LogThrottle:
    """Warnings, at most one a minute of each kind, which says how many there were since."""

    def __init__(self) -> None:
        self._last_logged_at: dict[str, float] = {}
        self._suppressed_counts: dict[str, int] = {}

    def warn(self, kind: str, message: str, *arguments: object) -> None:
        """Write a line to the log, unless there was one of this kind within the last minute."""
        now = time.monotonic()
        if now - self._last_logged_at.get(kind, -THROTTLE_SECONDS) < THROTTLE_SECONDS:
            self._suppressed_counts[kind] = self._suppressed_counts.get(kind, 0) + 1
            return
        self._last_logged_at[kind] = now
        since = self._suppressed_counts.pop(kind, 0)
        more = f" ({since} more since the last such line)" if since else ""
        log.warning("%s%s", message % arguments, more)
