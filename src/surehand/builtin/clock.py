"""The factory `clock`: tools that tell the time and wait. Plans of agents use its time zones too."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.core.clock import Clock
from surehand.core.define import tool
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError, InvalidArguments, Unavailable
from surehand.core.names import nearest_names
from surehand.core.tool import Tool

_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SLEEP_GRACE_SECONDS = 5.0
"""Added to the sleep for the deadline of the call: a busy event loop wakes up late."""
_MAX_SLEEP_SECONDS = 86_400


def clock(source: Clock | None = None, *, max_sleep: float | str = "5m") -> list[Tool[..., Any]]:
    """Tools that tell the time and wait.

    Args:
        source: the clock to use; a test passes the clock of its runtime.
        max_sleep: the longest that one call may sleep, in seconds or as '30s' or '5m'.
    """
    clock = source or Clock()
    max_seconds = _parse_max_sleep(max_sleep)

    @tool(category="system", effects={"read"}, visible=False, toolsets=("all_task_tools", "main_agent_tools"))
    def current_time(
        timezone: Annotated[
            str, limited_field(description="IANA time zone, such as Europe/Berlin.", max_length=100)
        ] = "UTC",
    ) -> dict[str, Any]:
        """Tell the current date and time in a time zone."""
        timestamp = clock.time()
        local_time = datetime.fromtimestamp(timestamp, find_time_zone(timezone))
        return {
            "timestamp": int(timestamp * 1000),
            "iso": local_time.isoformat(timespec="milliseconds"),
            "timezone": getattr(local_time.tzinfo, "key", "UTC"),
            "formatted": _format_in_words(local_time),
        }

    @tool(category="system", effects={"read"}, visible=False, toolsets="all_task_tools",
          timeout=lambda arguments: min(arguments["duration"], max_seconds) + _SLEEP_GRACE_SECONDS)  # fmt: skip
    async def sleep(
        duration: Annotated[
            float, Field(description=f"Seconds to wait, at most {max_seconds:g}.", gt=0, le=max_seconds)
        ],
    ) -> dict[str, float]:
        """Wait so many seconds before going on with anything else."""
        await clock.sleep(duration)
        return {"slept": duration}

    return [current_time, sleep]


def _parse_max_sleep(max_sleep: float | str) -> float:
    try:
        seconds = parse_duration(max_sleep)
    except ValueError as error:
        raise DefinitionError(f"`max_sleep` is not a duration: {error}", fix="write 300, '30s' or '5m'.") from None
    if seconds is None or not 0 < seconds <= _MAX_SLEEP_SECONDS:
        raise DefinitionError(
            f"`max_sleep` must be positive and at most a day, got {max_sleep!r}.", fix="write a duration such as '5m'."
        )
    return seconds


def _format_in_words(local_time: datetime) -> str:
    day = _DAY_NAMES[local_time.weekday()]
    month = _MONTH_NAMES[local_time.month - 1]
    return f"{day}, {local_time.day} {month} {local_time.year}, {local_time:%H:%M:%S} {local_time.tzname()}"


def find_time_zone(name: str) -> tzinfo:
    """Find a time zone by its IANA name; raises `InvalidArguments` with similar names."""
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return UTC
    from zoneinfo import ZoneInfo  # slow to import, and not needed for UTC

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _unknown_time_zone_error(name) from None


def _unknown_time_zone_error(name: str) -> InvalidArguments | Unavailable:
    known = _time_zone_names()
    if not known:
        return Unavailable("There is no time zone database here: use UTC, or install it with `pip install tzdata`.")
    similar = _similar_time_zones(name[:100], known)
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "Give an IANA name such as Europe/Berlin, or UTC."
    return InvalidArguments(f"There is no time zone {name[:100]!r}. {hint}")


def _similar_time_zones(name: str, known: frozenset[str]) -> list[str]:
    """Time zones of the same city, or else those with a similar spelling."""
    city = name.casefold().replace(" ", "_").rpartition("/")[2]
    same_city = sorted(zone for zone in known if zone.casefold().rpartition("/")[2] == city)
    return same_city[:3] or nearest_names(name, known)


@cache
def _time_zone_names() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())
