"""The HTTP header `Retry-After`: seconds, or a date."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 86_400.0
"""No server is waited for longer than a day, whatever it says."""


def parse_retry_after(value: str) -> float | None:
    """The seconds to wait from now on; None if the value cannot be read."""
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value)
    return min(seconds, MAX_SECONDS) if seconds >= 0 else None


def _seconds_until(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:  # the zone `-0000` is UTC of an unknown place
        date = date.replace(tzinfo=UTC)
    return min(max(0.0, (date - datetime.now(UTC)).total_seconds()), MAX_SECONDS)
