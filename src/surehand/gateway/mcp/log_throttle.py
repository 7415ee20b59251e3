"""A throttle for log warnings that any client can cause as often as it likes: refused hosts, tokens and requests."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("surehand")
THROTTLE_SECONDS = 60.0


class LogThrottle:
    """Logs at most one warning of each kind per minute, with the number of suppressed ones."""

    def __init__(self) -> None:
        self._last_logged_at: dict[str, float] = {}
        self._suppressed_counts: dict[str, int] = {}

    def warn(self, kind: str, message: str, *arguments: object) -> None:
        """Log a warning, unless one of this kind was logged within the last minute."""
        now = time.monotonic()
        if now - self._last_logged_at.get(kind, -THROTTLE_SECONDS) < THROTTLE_SECONDS:
            self._suppressed_counts[kind] = self._suppressed_counts.get(kind, 0) + 1
            return
        self._last_logged_at[kind] = now
        suppressed_count = self._suppressed_counts.pop(kind, 0)
        suffix = f" ({suppressed_count} more since the last such line)" if suppressed_count else ""
        log.warning("%s%s", message % arguments, suffix)
