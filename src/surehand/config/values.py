"""Values as people write them: durations, sizes, numbers, words and environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from surehand.config.place import Place
from surehand.core.durations import seconds
from surehand.core.names import nearest

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\Z", re.IGNORECASE)
_SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

LATER = "is not available in this version"


def snake(key: str) -> str:
    """`toolTimeout` as `tool_timeout`."""
    return _HUMP.sub("_", key).lower()


def known_entries(
    place: Place,
    known: Iterable[str],
    *,
    others: Mapping[str, str] | None = None,
    later: Iterable[str] = (),
    left_out: Iterable[str] = (),
) -> dict[str, Place]:
    """The entries of a mapping by their proper names; a key that means nothing is an error that says what was meant."""
    names, others, later = list(known), others or {}, frozenset(later)
    found: dict[str, Place] = {}
    for key, inside in place.entries().items():
        name = others.get(snake(key), snake(key))
        if name in left_out:
            continue
        if name in later:
            raise inside.error(f"{key} {LATER}.", "take it out.")
        if name not in names:
            near = nearest(snake(key), names, 1)
            raise inside.error(f"Unknown key {key!r}.", f"{f'did you mean {near[0]!r}? ' if near else ''}{_all(names)}")
        if name in found:
            raise inside.error(f"{key} says the same as {found[name].key}.", "keep one of them.")
        found[name] = inside
    return found


def _all(names: list[str]) -> str:
    return f"Known here: {', '.join(names)}."


def duration(place: Place) -> float:
    """Seconds above zero. A bare number is seconds; under a camelCase key, and one ending in `_ms`, milliseconds."""
    value = place.value
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        value = float(value)
    try:
        if isinstance(value, str):
            found = seconds(value)
        else:
            found = float(value) * (0.001 if _in_ms(place.key) else 1.0) if _is_number(value) else None
    except (ValueError, OverflowError):
        found = None
    if not found or not isfinite(found) or found <= 0:
        raise place.error(f"{place.key} must be a duration.", "write 500ms, 30s, 5m or 2h.")
    return found


def _in_ms(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def size(place: Place) -> int:
    """Bytes, from a number, `100kB`, `1MB` or `64KiB`."""
    value, found = place.value, 0
    if isinstance(value, str) and (match := _SIZE.match(value.strip())):
        found = int(float(match[1]) * _SIZES[(match[2] or "").lower()])
    elif _is_number(value) and (isinstance(value, int) or isfinite(value)) and value == int(value):
        found = int(value)
    if found < 1:
        raise place.error(f"{place.key} must be a size.", "write 20000, 100kB or 1MB.")
    return found


def whole(place: Place) -> int:
    """A whole number from one on."""
    if not _is_number(place.value) or isinstance(place.value, float) or place.value < 1:
        raise place.error(f"{place.key} must be a whole number, one at least.")
    return int(place.value)


def or_off(read: Callable[[Place], Any]) -> Callable[[Place], Any]:
    """The same, or None for `off`, which YAML reads as false."""

    def read_or_off(place: Place) -> Any:
        off = place.value is False or (isinstance(place.value, str) and place.value.strip().lower() == "off")
        return None if off else read(place)

    return read_or_off


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text(place: Place) -> str:
    """Words that are there."""
    if not isinstance(place.value, str) or not place.value.strip():
        raise place.error(f"{place.key} must be text.")
    return place.value


def texts(place: Place, fix: str = "") -> list[str]:
    """One text, or a list of them."""
    if isinstance(place.value, str):
        return [text(place)]
    return [text(item) for item in place.items(fix)]


def flag(place: Place) -> bool:
    """True or false."""
    if not isinstance(place.value, bool):
        raise place.error(f"{place.key} must be true or false.")
    return place.value


def expanded(place: Place, environment: Mapping[str, str]) -> str:
    """A text with its `${NAME}` references filled in, as late as that is possible."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise place.error(f"{place.key} needs the environment variable {match[1]}, which is not set.")
        return environment[match[1]]

    return _VARIABLE.sub(value_of, text(place))
