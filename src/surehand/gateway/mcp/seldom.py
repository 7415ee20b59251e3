"""Seldom: what strangers can cause as often as they like is told now and then."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("surehand")
MINUTE = 60.0


class Seldom:
    """Warnings, at most one a minute of each kind, which says how many there were since."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warn(self, kind: str, told: str, *words: object) -> None:
        """Write a line to the log, unless there was one of this kind within the last minute."""
        now = time.monotonic()
        if now - self._last.get(kind, -MINUTE) < MINUTE:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._last[kind] = now
        since = self._left_out.pop(kind, 0)
        more = f" ({since} more since the last such line)" if since else ""
        log.warning("%s%s", told % words, more)
