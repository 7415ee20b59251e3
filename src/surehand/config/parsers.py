"""Parsers for values of a configuration file: durations, sizes, numbers, texts and `${NAME}` variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, cast, get_args

from surehand.config.node import ConfigNode
from surehand.core.durations import parse_duration
from surehand.core.names import nearest_names
from surehand.core.provider import OnConflict

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
    """The entries of a mapping by their canonical names; an unknown key is an error that suggests the nearest one.

    Args:
        aliases: other spellings of keys, in snake case.
        unavailable: keys that a later version will have.
        ignored: keys of other programs.
    """
    names = list(known)
    aliases = aliases or {}
    unavailable = frozenset(unavailable)
    entries: dict[str, ConfigNode] = {}
    for key, entry in node.entries().items():
        snake_key = to_snake_case(key)
        name = aliases.get(snake_key, snake_key)
        if name in ignored:
            continue
        if name in unavailable:
            raise entry.error(f"{key} {NOT_AVAILABLE}.", "remove it.")
        if name not in names:
            raise entry.error(f"Unknown key {key!r}.", _suggest_key(snake_key, names))
        if name in entries:
            raise entry.error(f"{key} and {entries[name].key} set the same value.", "keep one of them.")
        entries[name] = entry
    return entries


def _suggest_key(key: str, names: list[str]) -> str:
    nearest = nearest_names(key, names, 1)
    suggestion = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"{suggestion}Known here: {', '.join(names)}."


def read_duration(node: ConfigNode, *, is_milliseconds: bool | None = None) -> float:
    """A positive duration in seconds.

    Args:
        is_milliseconds: the unit of a bare number; by default milliseconds under a camelCase key or one with `_ms`.
    """
    value = node.value
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        value = float(value)  # a number in quotes means the same as one without
    try:
        if isinstance(value, str):
            seconds = parse_duration(value)
        elif _is_number(value):
            in_milliseconds = _is_in_milliseconds(node.key) if is_milliseconds is None else is_milliseconds
            seconds = float(value) * (0.001 if in_milliseconds else 1.0)
        else:
            seconds = None
    except (ValueError, OverflowError):
        seconds = None
    if not seconds or not isfinite(seconds) or seconds <= 0:
        raise node.error(f"{node.key} must be a duration.", "write 500ms, 30s, 5m or 2h.")
    return seconds


def _is_in_milliseconds(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def read_size(node: ConfigNode) -> int:
    """A size in bytes, from a number, `100kB`, `1MB` or `64KiB`."""
    value = node.value
    size = 0
    if isinstance(value, str) and (match := _SIZE_PATTERN.match(value.strip())):
        size = int(float(match[1]) * _BYTES_PER_UNIT[(match[2] or "").lower()])
    elif _is_number(value) and (isinstance(value, int) or isfinite(value)) and value == int(value):
        size = int(value)
    if size < 1:
        raise node.error(f"{node.key} must be a size.", "write 20000, 100kB or 1MB.")
    return size


def read_count(node: ConfigNode) -> int:
    """A whole number from 0 on."""
    if not _is_number(node.value) or isinstance(node.value, float) or node.value < 0:
        raise node.error(f"{node.key} must be a whole number from 0 on.")
    return int(node.value)


def read_positive_integer(node: ConfigNode) -> int:
    """A positive integer."""
    if not _is_number(node.value) or isinstance(node.value, float) or node.value < 1:
        raise node.error(f"{node.key} must be a positive integer.")
    return int(node.value)


def read_number(node: ConfigNode, *, may_be_zero: bool = False) -> float:
    """A number above zero, or also zero."""
    value = node.value
    if not _is_number(value) or not isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
        raise node.error(f"{node.key} must be a number {'from 0 on' if may_be_zero else 'above 0'}.")
    return float(value)


def or_off(parse: Callable[[ConfigNode], Any]) -> Callable[[ConfigNode], Any]:
    """A parser that also accepts `off` and then returns None. YAML reads `off` as false."""

    def read_or_off(node: ConfigNode) -> Any:
        is_off = node.value is False or (isinstance(node.value, str) and node.value.strip().lower() == "off")
        return None if is_off else parse(node)

    return read_or_off


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_text(node: ConfigNode) -> str:
    """A text that is not blank."""
    if not isinstance(node.value, str) or not node.value.strip():
        raise node.error(f"{node.key} must be a text.")
    return node.value


def read_texts(node: ConfigNode, fix: str = "") -> list[str]:
    """A text, or a list of texts."""
    if isinstance(node.value, str):
        return [read_text(node)]
    return [read_text(item) for item in node.items(fix)]


def read_mapping(node: ConfigNode) -> dict[str, Any]:
    """A mapping as it is written."""
    return {name: entry.value for name, entry in node.entries().items()}


def read_on_conflict(node: ConfigNode) -> OnConflict:
    """What happens to a tool whose name is taken."""
    if node.value not in get_args(OnConflict):
        raise node.error(f"{node.key} has an unknown value.", f"use {', '.join(get_args(OnConflict))}.")
    return cast(OnConflict, node.value)


def read_flag(node: ConfigNode) -> bool:
    """A boolean."""
    if not isinstance(node.value, bool):
        raise node.error(f"{node.key} must be true or false.")
    return node.value


def referenced_variables(text: str) -> list[str]:
    """The names of the `${NAME}` references of a text."""
    return [match[1] for match in _VARIABLE.finditer(text)]


def expand_variables(node: ConfigNode, environment: Mapping[str, str]) -> str:
    """The text of a node with its `${NAME}` references replaced. Called late, so that nodes hold no secrets."""
    return substitute_variables(node, read_text(node), environment)


def substitute_variables(node: ConfigNode, text: str, environment: Mapping[str, str]) -> str:
    """A text of a node with its `${NAME}` references replaced."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise node.error(f"{node.key} needs the environment variable {match[1]}, which is not set.")
        return environment[match[1]]

    return _VARIABLE.sub(value_of, text)
