"""Values as people write them: durations, sizes, numbers, words and environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from surehand.config.node import ConfigNode
from surehand.core.durations import parse_duration
from surehand.core.names import nearest_names

_SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\Z", re.IGNORECASE)
_BYTES_PER_UNIT = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

NOT_AVAILABLE = "is not available in this version"


def to_snake_case(key: str) -> str:
    """`toolTimeout` as `tool_timeout`."""
    return _CAMEL_CASE_BOUNDARY.sub("_", key).lower()


def known_entries(
    node: ConfigNode,
    known: Iterable[str],
    *,
    aliases: Mapping[str, str] | None = None,
    unavailable: Iterable[str] = (),
    ignored: Iterable[str] = (),
) -> dict[str, ConfigNode]:
    """The entries of a mapping by their proper names; a key that means nothing is an error that says what was meant."""
    names, aliases, unavailable = list(known), aliases or {}, frozenset(unavailable)
    found: dict[str, ConfigNode] = {}
    for key, inside in node.entries().items():
        name = aliases.get(to_snake_case(key), to_snake_case(key))
        if name in ignored:
            continue
        if name in unavailable:
            raise inside.error(f"{key} {NOT_AVAILABLE}.", "take it out.")
        if name not in names:
            near = nearest_names(to_snake_case(key), names, 1)
            raise inside.error(
                f"Unknown key {key!r}.", f"{f'did you mean {near[0]!r}? ' if near else ''}{_known_keys_text(names)}"
            )
        if name in found:
            raise inside.error(f"{key} says the same as {found[name].key}.", "keep one of them.")
        found[name] = inside
    return found


def _known_keys_text(names: list[str]) -> str:
    return f"Known here: {', '.join(names)}."


def read_duration(node: ConfigNode) -> float:
    """Seconds above zero. A bare number is seconds; under a camelCase key, and one ending in `_ms`, milliseconds."""
    value = node.value
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        value = float(value)
    try:
        if isinstance(value, str):
            found = parse_duration(value)
        else:
            found = float(value) * (0.001 if _is_in_milliseconds(node.key) else 1.0) if _is_number(value) else None
    except (ValueError, OverflowError):
        found = None
    if not found or not isfinite(found) or found <= 0:
        raise node.error(f"{node.key} must be a duration.", "write 500ms, 30s, 5m or 2h.")
    return found


def _is_in_milliseconds(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def read_size(node: ConfigNode) -> int:
    """Bytes, from a number, `100kB`, `1MB` or `64KiB`."""
    value, found = node.value, 0
    if isinstance(value, str) and (match := _SIZE_PATTERN.match(value.strip())):
        found = int(float(match[1]) * _BYTES_PER_UNIT[(match[2] or "").lower()])
    elif _is_number(value) and (isinstance(value, int) or isfinite(value)) and value == int(value):
        found = int(value)
    if found < 1:
        raise node.error(f"{node.key} must be a size.", "write 20000, 100kB or 1MB.")
    return found


def read_positive_integer(node: ConfigNode) -> int:
    """A whole number from one on."""
    if not _is_number(node.value) or isinstance(node.value, float) or node.value < 1:
        raise node.error(f"{node.key} must be a whole number, one at least.")
    return int(node.value)


def or_off(parse: Callable[[ConfigNode], Any]) -> Callable[[ConfigNode], Any]:
    """The same, or None for `off`, which YAML reads as false."""

    def read_or_off(place: ConfigNode) -> Any:
        off = place.value is False or (isinstance(place.value, str) and place.value.strip().lower() == "off")
        return None if off else parse(place)

    return read_or_off


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_text(node: ConfigNode) -> str:
    """Words that are there."""
    if not isinstance(node.value, str) or not node.value.strip():
        raise node.error(f"{node.key} must be text.")
    return node.value


def read_texts(node: ConfigNode, fix: str = "") -> list[str]:
    """One text, or a list of them."""
    if isinstance(node.value, str):
        return [read_text(node)]
    return [read_text(item) for item in node.items(fix)]


def read_flag(node: ConfigNode) -> bool:
    """True or false."""
    if not isinstance(node.value, bool):
        raise node.error(f"{node.key} must be true or false.")
    return node.value


def expand_variables(node: ConfigNode, environment: Mapping[str, str]) -> str:
    """A text with its `${NAME}` references filled in, as late as that is possible."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise node.error(f"{node.key} needs the environment variable {match[1]}, which is not set.")
        return environment[match[1]]

    return _VARIABLE.sub(value_of, read_text(node))
