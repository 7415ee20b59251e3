"""Zones: time zones by their IANA names."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache

from surehand.core.errors import InvalidArguments, Unavailable
from surehand.core.names import nearest_names


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
