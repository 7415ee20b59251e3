"""Defaults: the limits that hold where nothing else says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names


def _parse_seconds(value: Any) -> float:
    found = parse_duration(value) if isinstance(value, str) else _validate_number(value)
    if found is None or not isfinite(found) or found < 0:
        raise ValueError
    return float(found)


def _parse_positive_seconds(value: Any) -> float:
    if (found := _parse_seconds(value)) == 0:
        raise ValueError
    return found


def _parse_size(value: Any) -> int:
    return _parse_positive_integer(parse_size(value) if isinstance(value, str) else value)


def _parse_positive_integer(value: Any) -> int:
    found = int(_validate_number(value))
    if found != value or found < 1:
        raise ValueError
    return found


def _validate_number(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError
    return value


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, or None for no limit, which may be written as `off`."""

    def read_or_off(value: Any) -> Any:
        off = value is None or (isinstance(value, str) and value.strip().lower() == "off")
        return None if off else parse(value)

    return read_or_off


_SECONDS_HINT, _COUNT_HINT, _OPTIONAL_HINT = (
    "seconds above zero, or '30s'",
    "a whole number, one at least",
    ", or None for no limit",
)
_FIELD_PARSERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "tool_timeout": (_optional(_parse_positive_seconds), _SECONDS_HINT + _OPTIONAL_HINT),
    "max_output": (_parse_size, "a number of bytes, or '100kB'"),
    "max_input": (_parse_size, "a number of characters, or '16MB'"),
    "max_concurrent": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
    "pending_ttl": (_optional(_parse_positive_seconds), _SECONDS_HINT + _OPTIONAL_HINT),
    "retry_delay": (_parse_seconds, "seconds, or '500ms'"),
    "breaker_failures": (_parse_positive_integer, _COUNT_HINT),
    "breaker_pause": (_parse_seconds, "seconds, or '30s'"),
    "mcp_init_concurrency": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
    "max_calls_per_turn": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
}
"""How each is read, and what is to be given where that cannot be done."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Limits for tools that set none themselves."""

    tool_timeout: float | None = 30.0
    """Seconds per attempt; None for no limit."""
    max_output: int = 100_000
    """Bytes of text that a model is shown; the rest is kept under a handle."""
    max_input: int = 16_000_000
    """Characters of arguments."""
    max_concurrent: int | None = None
    """Calls running at once among the tools that name no queue."""
    pending_ttl: float | None = 7 * 86_400.0
    """Seconds that a call may wait for a person."""
    retry_delay: float = 0.5
    """Seconds before the first retry; doubled each time, at most half a minute."""
    breaker_failures: int = 5
    """Failures in a row after which a provider counts as down."""
    breaker_pause: float = 30.0
    """Seconds before a provider that is down is tried again."""
    mcp_init_concurrency: int | None = None
    """MCP servers that are started at once when the runtime starts; None for all of them."""
    max_calls_per_turn: int | None = None
    """Calls of one turn, for scopes with a turn that set no limit themselves."""

    def __post_init__(self) -> None:
        for name, (
            read,
            wanted,
        ) in _FIELD_PARSERS.items():  # what no call can go by is refused once, and not by every call
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, read(value))
            except (TypeError, ValueError, OverflowError):
                problem = f"The default {name}={repr(value)[:80]} cannot be used."
                raise DefinitionError(problem, fix=f"give {wanted}.") from None

    @classmethod
    def from_mapping(cls, defaults: Defaults | Mapping[str, Any] | None) -> Defaults:
        """Defaults from a mapping, refusing names and values that mean nothing."""
        if isinstance(defaults, Defaults):
            return defaults
        if not isinstance(defaults, Mapping | None):
            problem = f"defaults={repr(defaults)[:80]} cannot be used."  # type: ignore[unreachable]  # for who has no mypy
            raise DefinitionError(problem, fix="give a mapping, as in {'tool_timeout': 30}.")
        known = [field.name for field in fields(cls)]
        for name in defaults or {}:
            if name not in known:
                near = nearest_names(str(name), known, 1)
                raise DefinitionError(f"There is no default {name!r}.", fix=f"use {near[0] if near else known}.")
        return cls(**(defaults or {}))
