"""Durations as people write them: 30, "30s", "5m", "off"."""

from __future__ import annotations

import re

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SECONDS_PER_UNIT |= {"mo": 2_592_000.0, "y": 31_536_000.0, "": 1.0}
_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\Z")


def parse_duration(value: float | str) -> float | None:
    """Seconds, or None for `off`. A bare number is seconds."""
    if isinstance(value, (int, float)):
        return float(value)
    text = value.strip().lower()
    if text == "off":
        return None
    match = _NUMBER_AND_UNIT.match(text)
    if not match or match[2] not in _SECONDS_PER_UNIT:
        raise ValueError(f"{value!r} is no duration.")
    return float(match[1]) * _SECONDS_PER_UNIT[match[2]]


def parse_rate(value: str) -> tuple[int, float]:
    """`30/min` as (30, 60.0)."""
    count, slash, period = value.partition("/")
    unit = period.strip().lower()
    unit = {"sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d"}.get(unit, unit)
    if not slash or not unit or not count.strip().isdigit() or int(count) < 1:
        raise ValueError(f"{value!r} is no rate. Write 30/min, 5/s or 1000/h.")
    length = parse_duration(unit if unit[:1].isdigit() else f"1{unit}")
    if not length:
        raise ValueError(f"{value!r} is no rate. Write 30/min, 5/s or 1000/h.")
    return int(count), length


_BYTES_PER_UNIT = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


def parse_size(value: int | str) -> int:
    """`100kB` or `2MiB` in bytes."""
    if isinstance(value, int):
        return value
    match = _NUMBER_AND_UNIT.match(value.strip().lower())
    if not match or match[2] not in _BYTES_PER_UNIT:
        raise ValueError(f"{value!r} is no size.")
    return int(float(match[1]) * _BYTES_PER_UNIT[match[2]])
