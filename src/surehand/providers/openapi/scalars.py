"""Texts of single values, as they stand in an address, a header, a form or a text body."""

from __future__ import annotations

import json
from typing import Any


def scalar_text(value: Any) -> str:
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
