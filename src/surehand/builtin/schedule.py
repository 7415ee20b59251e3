"""Schedule: when a plan runs, from cron, a moment, or a while from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from surehand.builtin.zones import find_time_zone
from surehand.core.errors import InvalidArguments, Unavailable

_DELAY = re.compile(r"([0-9]{1,6})\s*(minute|hour|day|week)s?\Z", re.IGNORECASE)
_SECONDS_PER_UNIT = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MAX_FUTURE_SECONDS = 20 * 365 * 86_400


def parse_run_after(text: str, now: float) -> float:
    """`30 minutes`, `2 hours`, `1 day` or `3 weeks` from now, in seconds since the epoch."""
    found = _DELAY.match(text.strip())
    if found is None or not int(found[1]):
        raise InvalidArguments(
            f"runAfter {text[:60]!r} is no time. Write '30 minutes', '2 hours', '1 day' or '3 weeks'."
        )
    return _validate_future("runAfter", text, now + int(found[1]) * _SECONDS_PER_UNIT[found[2].lower()], now)


def parse_scheduled_at(text: str, now: float, timezone: str) -> float:
    """An ISO 8601 date and time; one without an offset is meant in the time zone."""
    try:
        local = datetime.fromisoformat(text.strip())
        at = (local if local.tzinfo else local.replace(tzinfo=find_time_zone(timezone))).timestamp()
    except (ValueError, OverflowError):
        example = "2027-03-31T09:00:00+02:00"
        raise InvalidArguments(f"scheduledAt {text[:60]!r} is no date and time. Write ISO 8601: {example}.") from None
    return _validate_future("scheduledAt", text, at, now)


def next_cron_time(cron: str, after: float, timezone: str) -> float | None:
    """The first moment strictly after another that a cron expression names; None if there is none."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise Unavailable("plans with cron need the package cronsim: pip install 'surehand[cron]'") from None

    start = datetime.fromtimestamp(after, find_time_zone(timezone))
    try:
        if len(cron.split()) != 5:
            raise CronSimError("it needs five fields")
        return next(CronSim(cron, start)).timestamp()
    except StopIteration:
        return None
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        example = "'30 9 * * MON-FRI' is 9:30 on working days"
        raise InvalidArguments(f"cron {cron[:60]!r}: {str(error) or 'wrong'}. Minute, hour, day, month, weekday: {example}.") from None  # fmt: skip # noqa: E501


def format_time(timestamp: float | None, timezone: str) -> str | None:
    """A moment as ISO 8601 in a time zone."""
    return (
        None
        if timestamp is None
        else datetime.fromtimestamp(timestamp, _time_zone_or_utc(timezone)).isoformat(timespec="seconds")
    )


def _time_zone_or_utc(timezone: str) -> tzinfo:
    try:
        return find_time_zone(timezone)
    except (InvalidArguments, Unavailable):
        return UTC  # the database of zones has changed since the plan was made


def _validate_future(parameter: str, text: str, timestamp: float, now: float) -> float:
    if not now < timestamp <= now + _MAX_FUTURE_SECONDS:
        side = "past" if timestamp <= now else "far future"
        raise InvalidArguments(f"{parameter} {text[:60]!r} is in the {side}: it is {format_time(now, 'UTC')} now.")
    return timestamp
