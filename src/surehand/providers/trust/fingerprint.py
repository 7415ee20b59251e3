"""The fingerprint of a definition: a SHA-256 hash over its canonical JSON (RFC 8785) and its provider's identity."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

PINNED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""The fields that a model reads or that say how risky a tool is. Icons and `_meta` reach no model, and may change."""


def pinned_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The pinned fields of a definition; a field that is null is left out."""
    return {field: definition[field] for field in PINNED_FIELDS if definition.get(field) is not None}


def fingerprint(identity: str, definition: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of the pinned fields and the provider's identity."""
    return hash_json({"server": identity, **pinned_fields(definition)})


def hash_json(value: Any) -> str:
    """SHA-256 over the canonical JSON of a value."""
    return sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON in the canonical form of RFC 8785, so that other programs compute the same hash.

    Integers too large for a double, for which the RFC has no form, are written in full: they must stay distinct.
    """
    text = _encode_json(value)
    # Fast path, ten times as fast: Python's output is canonical, unless it may hold a float, whose format differs, or
    # a key with a character from U+D800 on, which UTF-16 sorts differently.
    sorts_alike = text.isascii() or max(text) < "\ud800"
    return text if sorts_alike and not _FLOAT_PATTERN.search(text) else _canonicalize(value)


_encode_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_FLOAT_PATTERN = re.compile(r"\d[.e]")


def _canonicalize(value: Any) -> str:
    match value:
        case str() | bool() | int() | None:
            return _encode_json(value)
        case float():
            return _format_number(value)
        case Mapping():
            pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))
            return "{" + ",".join(f"{_canonicalize(key)}:{_canonicalize(inner)}" for key, inner in pairs) + "}"
    return "[" + ",".join(map(_canonicalize, value)) + "]"


def _format_number(value: float) -> str:
    """A double as ECMAScript formats it: the digits are Python's, the decimal point and exponent are not."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "infinities were refused before"
    return "-" * sign + _place_decimal_point("".join(map(str, digits)), len(digits) + exponent)


def _place_decimal_point(digits: str, point: int) -> str:
    """The digits with the decimal point after the first `point` of them."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"
