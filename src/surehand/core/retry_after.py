"""The HTTP header `Retry-After`: seconds, or a date."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def parse_retry_after(value: str) -> float | None:
    """The seconds to wait from now on; None if the value cannot be read."""
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value)
    return seconds if 0 <= seconds < 1_000_000 else None


def _seconds_until(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:  # the zone `-0000` is UTC of an unknown place
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
