"""Clock: what time it is, and waiting."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from surehand.core.clock import Clock
from surehand.core.define import tool
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError, InvalidArguments, Unavailable
from surehand.core.names import nearest_names
from surehand.core.tool import Tool


def find_time_zone(name: str) -> tzinfo:
    """The time zone of that name; raises `InvalidArguments` with the names that it may have been."""
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return UTC
    from zoneinfo import ZoneInfo  # loaded by those alone who leave UTC

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _unknown_time_zone_error(name) from None


def _unknown_time_zone_error(name: str) -> InvalidArguments | Unavailable:
    if not (known := _time_zone_names()):
        return Unavailable("There is no time zone database here: use UTC, or install it with `pip install tzdata`.")
    near = _similar_time_zones(name[:100], known)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Give an IANA name such as Europe/Berlin, or UTC."
    return InvalidArguments(f"There is no time zone {name[:100]!r}. {hint}")


def _similar_time_zones(name: str, known: frozenset[str]) -> list[str]:
    """Zones with that city first, then those that are spelled like it."""
    city = name.casefold().replace(" ", "_").rpartition("/")[2]
    same = sorted(each for each in known if each.casefold().rpartition("/")[2] == city)
    return same[:3] or nearest_names(name, known)


@cache
def _time_zone_names() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())


_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SLEEP_GRACE_SECONDS = 5.0
"""Seconds beyond the sleep itself: a busy loop wakes late, and that is no failure."""


def clock(source: Clock | None = None, *, max_sleep: float | str = "5m") -> list[Tool[..., Any]]:
    """Tools that tell the time and wait.

    Args:
        source: the clock they go by; a test gives the one of its runtime.
        longest: the most that one call may sleep.
    """
    clock, most = source or Clock(), _parse_max_sleep(max_sleep)

    @tool(category="system", effects={"read"}, visible=False, toolsets=("all_task_tools", "main_agent_tools"),
          examples=[{"timezone": "Europe/Berlin"}])  # fmt: skip
    def current_time(
        timezone: Annotated[str, Field(description="IANA time zone, such as Europe/Berlin.", max_length=100)] = "UTC",
    ) -> dict[str, Any]:
        """Tell the current date and time in a time zone, as Unix milliseconds, ISO 8601 and words."""
        moment = clock.time()
        local = datetime.fromtimestamp(moment, find_time_zone(timezone))
        return {
            "timestamp": int(moment * 1000),
            "iso": local.isoformat(timespec="milliseconds"),
            "timezone": getattr(local.tzinfo, "key", "UTC"),
            "formatted": _format_in_words(local),
        }

    @tool(category="system", effects={"read"}, visible=False, toolsets="all_task_tools", examples=[{"duration": 2.5}],
          timeout=lambda arguments: min(arguments["duration"], most) + _SLEEP_GRACE_SECONDS)  # fmt: skip
    async def sleep(
        duration: Annotated[float, Field(description=f"Seconds to wait, at most {most:g}.", gt=0, le=most)],
    ) -> dict[str, float]:
        """Wait so many seconds before going on, for example until something elsewhere is ready."""
        await clock.sleep(duration)
        return {"slept": duration}

    return [current_time, sleep]


def _parse_max_sleep(max_sleep: float | str) -> float:
    try:
        most = parse_duration(max_sleep)
    except ValueError as error:
        raise DefinitionError(f"longest: {error}", fix="write 300, '30s' or '5m'.") from None
    if most is None or not 0 < most <= 86_400:
        raise DefinitionError(f"longest={max_sleep!r} is no time to sleep.", fix="give at most a day, such as '5m'.")
    return most


def _format_in_words(local_time: datetime) -> str:
    day, month = _DAY_NAMES[local_time.weekday()], _MONTH_NAMES[local_time.month - 1]
    return f"{day}, {local_time.day} {month} {local_time.year}, {local_time:%H:%M:%S} {local_time.tzname()}"
