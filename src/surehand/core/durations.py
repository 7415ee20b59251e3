"""Durations, rates and sizes as people write them: `30`, `"30s"`, `"5m"`, `"off"`; `"30/min"`; `"100kB"`.

Options of tools, the configuration file and the command line are parsed with it.
"""

from __future__ import annotations

import re
from math import isnan

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SECONDS_PER_UNIT |= {"mo": 2_592_000.0, "y": 31_536_000.0, "": 1.0}
_BYTES_PER_UNIT = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\Z")


def parse_duration(value: float | str) -> float | None:
    """A duration in seconds, or None for `off`. A number without a unit is seconds."""
    if isinstance(value, (int, float)):
        if isnan(value):  # a timer with it would never fire
            raise ValueError("NaN is not a duration.")
        return float(value)
    text = value.strip().lower()
    if text == "off":
        return None
    match = _NUMBER_AND_UNIT.match(text)
    if not match or match[2] not in _SECONDS_PER_UNIT:
        raise ValueError(f"{value!r} is not a duration.")
    return float(match[1]) * _SECONDS_PER_UNIT[match[2]]


def parse_rate(value: str) -> tuple[int, float]:
    """A rate as its count and the period in seconds: `30/min` is (30, 60.0)."""
    count, slash, period = value.partition("/")
    unit = period.strip().lower()
    unit = {"sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d"}.get(unit, unit)
    if not slash or not unit or not count.strip().isdigit() or int(count) < 1:
        raise ValueError(f"{value!r} is not a rate. Write 30/min, 5/s or 1000/h.")
    seconds = parse_duration(unit if unit[:1].isdigit() else f"1{unit}")
    if not seconds:
        raise ValueError(f"{value!r} is not a rate. Write 30/min, 5/s or 1000/h.")
    return int(count), seconds


def parse_size(value: int | str) -> int:
    """A size in bytes: `100kB` is 100,000, `2MiB` is 2,097,152."""
    if isinstance(value, int):
        return value
    match = _NUMBER_AND_UNIT.match(value.strip().lower())
    if not match or match[2] not in _BYTES_PER_UNIT:
        raise ValueError(f"{value!r} is not a size.")
    return int(float(match[1]) * _BYTES_PER_UNIT[match[2]])
