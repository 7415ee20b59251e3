"""JSON Schema keywords: which values of each are valid. A mistake in a document costs a keyword, and not the tool."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_OTHER_TYPE_NAMES = {
    other: name
    for name, others in {
        "integer": ("int", "int32", "int64", "long"),
        "number": ("float", "double", "decimal"),
        "boolean": ("bool",),
        "string": ("date", "datetime", "date-time", "uuid", "text", "file"),
        "array": ("list",),
        "object": ("map",),
    }.items()
    for other in others
}
_MAX_COUNT = 2**53
_JAVASCRIPT_PATTERN = re.compile(r"/(\^.*\$)/[a-z]*\Z", re.DOTALL)
MAX_PATTERN_CHARS = 2_000
MAX_PATTERN_BYTES = 256 * 1024
"""Memory of a compiled pattern. It runs in linear time in any case, but compiling `(\\w{100}){100}` takes long."""
SMALL_PATTERN_BYTES = 16 * 1024


def valid_types(value: Any) -> list[str]:
    """The JSON types that `type` names; names of other languages are translated, unknown ones are left out."""
    names = value if isinstance(value, list) else [value]
    found = (_json_type(name) for name in names if isinstance(name, str))
    return list(dict.fromkeys(name for name in found if name))


def _json_type(name: str) -> str:
    lowered = name.strip().lower()
    return lowered if lowered in JSON_TYPES else _OTHER_TYPE_NAMES.get(lowered, "")


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300 else None


def _positive_number(value: Any) -> Any:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _count(value: Any) -> Any:
    number = _number(value)
    return int(number) if number is not None and number == int(number) and 0 <= number <= _MAX_COUNT else None


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> Any:
    return value if isinstance(value, str) and value else None


VALUE_KEYWORDS: dict[str, Callable[[Any], Any]] = {
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": _positive_number,
    "minLength": _count,
    "maxLength": _count,
    "minItems": _count,
    "maxItems": _count,
    "minProperties": _count,
    "maxProperties": _count,
    "minContains": _count,
    "maxContains": _count,
    "uniqueItems": _flag,
    "format": _text,
    "contentEncoding": _text,
    "contentMediaType": _text,
}
"""Keywords with a plain value, and a function that returns the value if it is valid, else None."""


def usable_pattern(pattern: Any) -> str | None:
    """A pattern that the validator can compile; None for others, such as those that look ahead."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
        return None
    written = _without_javascript_quotes(pattern)
    return written if _can_compile(written, MAX_PATTERN_BYTES) else None


def is_small_pattern(pattern: str) -> bool:
    """Whether a pattern is compiled in well under a millisecond: most are, but a few characters may stand for much."""
    return len(pattern) <= MAX_PATTERN_CHARS and _can_compile(_without_javascript_quotes(pattern), SMALL_PATTERN_BYTES)


def _without_javascript_quotes(pattern: str) -> str:
    """`/^...$/` is how JavaScript quotes a pattern."""
    literal = _JAVASCRIPT_PATTERN.match(pattern)
    return literal[1] if literal else pattern


@lru_cache(maxsize=8_192)
def _can_compile(pattern: str, max_bytes: int) -> bool:
    import jsonschema_rs as js  # imported on first use: documents without patterns do not need it here

    try:
        js.validator_for({"pattern": pattern}, pattern_options=js.RegexOptions(size_limit=max_bytes))
    except (ValueError, js.ValidationError):
        return False
    return True


def fits_types(value: Any, types: list[str]) -> bool:
    """Whether a value has one of the JSON types."""
    return any(_has_type(value, name) for name in types)


def _has_type(value: Any, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return value is None
