"""Texts of single values, as they stand in an address, a header, a form or a text body."""

from __future__ import annotations

import json
from typing import Any

MAX_VALUE_DEPTH = 50
"""Levels of a value that is copied from a document."""


def value_text(value: Any) -> str:
    """A value as text: numbers and booleans as JSON writes them, and so objects and arrays; null is empty."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    # A server that reads an integer does not read `1.0`; both are the same number in JSON.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json_text(value)


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Compact JSON, with all characters as they are, or with escapes for those beyond ASCII."""
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)


def is_undefined(value: Any) -> bool:
    """Whether a value is left out of an address or form, as RFC 6570 says: null, or an empty list or object."""
    return value is None or (isinstance(value, (list, dict)) and not value)


def limited_char_count(max_chars: int, value: Any) -> int | None:
    """About the length of the JSON of a value; None if it is longer, or very deep. It looks at no more than that."""
    level = [value]
    count = 0
    for _ in range(MAX_VALUE_DEPTH):
        deeper: list[Any] = []
        for each in level:
            if isinstance(each, str):
                count += len(each) + 2
            elif isinstance(each, (list, dict)):
                count += len(each) + 2
                if count <= max_chars:
                    deeper += each
                    deeper += each.values() if isinstance(each, dict) else ()
            else:
                count += 4
            if count > max_chars:
                return None
        if not deeper:
            return count
        level = deeper
    return None
