"""Defaults: the limits of a runtime for tools, providers and calls that set none themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names


def _parse_seconds(value: Any) -> float:
    parsed = parse_duration(value) if isinstance(value, str) else _validate_number(value)
    if parsed is None or not isfinite(parsed) or parsed < 0:
        raise ValueError
    return float(parsed)


def _parse_positive_seconds(value: Any) -> float:
    if (parsed := _parse_seconds(value)) == 0:
        raise ValueError
    return parsed


def _parse_size(value: Any) -> int:
    return _parse_positive_integer(parse_size(value) if isinstance(value, str) else value)


def _parse_positive_integer(value: Any) -> int:
    parsed = int(_validate_number(value))
    if parsed != value or parsed < 1:
        raise ValueError
    return parsed


def _validate_number(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError
    return value


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser that also accepts None or `off`, for no limit."""

    def parse_optional(value: Any) -> Any:
        is_off = value is None or (isinstance(value, str) and value.strip().lower() == "off")
        return None if is_off else parse(value)

    return parse_optional


_SECONDS_HINT = "a positive number of seconds, or a text such as '30s'"
_COUNT_HINT = "a positive integer"
_OPTIONAL_HINT = ", or None for no limit"
_FIELD_PARSERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "tool_timeout": (_optional(_parse_positive_seconds), _SECONDS_HINT + _OPTIONAL_HINT),
    "max_output": (_parse_size, "a positive number of bytes, or a text such as '100kB'"),
    "max_input": (_parse_size, "a positive number of characters, or a text such as '16MB'"),
    "max_concurrent": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
    "pending_ttl": (_optional(_parse_positive_seconds), _SECONDS_HINT + _OPTIONAL_HINT),
    "retry_delay": (_parse_seconds, "a number of seconds, or a text such as '500ms'"),
    "breaker_failures": (_parse_positive_integer, _COUNT_HINT),
    "breaker_pause": (_parse_seconds, "a number of seconds, or a text such as '30s'"),
    "mcp_init_concurrency": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
    "max_calls_per_turn": (_optional(_parse_positive_integer), _COUNT_HINT + _OPTIONAL_HINT),
}
"""The parser of each field, and what it accepts."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Limits for tools that set none themselves."""

    tool_timeout: float | None = 30.0
    """Seconds per attempt; None for no limit."""
    max_output: int = 100_000
    """Bytes of text that a model is shown; a longer text is stored under a handle."""
    max_input: int = 16_000_000
    """Characters of arguments."""
    max_concurrent: int | None = None
    """Calls that run at once, over all tools that name no queue."""
    pending_ttl: float | None = 7 * 86_400.0
    """Seconds that a call may stay pending."""
    retry_delay: float = 0.5
    """Seconds before the first retry; doubled each time, at most half a minute."""
    breaker_failures: int = 5
    """Failures in a row after which a provider counts as down."""
    breaker_pause: float = 30.0
    """Seconds before a provider that is down is tried again."""
    mcp_init_concurrency: int | None = None
    """MCP servers that start at once when the runtime starts; None for all of them."""
    max_calls_per_turn: int | None = None
    """Calls of one turn, for scopes with a turn that have no budget of their own."""

    def __post_init__(self) -> None:
        for name, (parse, expected) in _FIELD_PARSERS.items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, parse(value))
            except (TypeError, ValueError, OverflowError):
                problem = f"The default {name} has an invalid value: {repr(value)[:80]}."
                raise DefinitionError(problem, fix=f"use {expected}.") from None

    @classmethod
    def from_mapping(cls, defaults: Defaults | Mapping[str, Any] | None) -> Defaults:
        """Build defaults from a mapping; raises DefinitionError for an unknown name or an invalid value."""
        if isinstance(defaults, Defaults):
            return defaults
        if not isinstance(defaults, Mapping | None):
            problem = f"defaults must be a mapping, got {repr(defaults)[:80]}."  # type: ignore[unreachable]  # callers without a type checker
            raise DefinitionError(problem, fix="use a mapping such as {'tool_timeout': 30}.")
        known = [field.name for field in fields(cls)]
        for name in defaults or {}:
            if name not in known:
                nearest = nearest_names(str(name), known, 1)
                raise DefinitionError(f"There is no default {name!r}.", fix=f"use {nearest[0] if nearest else known}.")
        return cls(**(defaults or {}))
