"""Fingerprint: one hash for what a tool is, as a model sees it, and for whose tool it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

PINNED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a definition says to a model or about its risk. Icons and `_meta` reach no model, and may change."""


def pinned_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """What counts of a definition; null is the same as nothing."""
    return {part: definition[part] for part in PINNED_FIELDS if definition.get(part) is not None}


def fingerprint(identity: str, definition: Mapping[str, Any]) -> str:
    """SHA-256 over the RFC 8785 form of what counts, together with whose tool it is."""
    return hash_json({"server": identity, **pinned_fields(definition)})


def hash_json(value: Any) -> str:
    """SHA-256 over the RFC 8785 form of a plain value."""
    return sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON as RFC 8785 spells it, so that other programs find the same hash.

    Integers too large for a double are written in full, where the RFC has no spelling: no two may have the same one.
    """
    quick = _encode_json(value)
    # Right as it is, and ten times as fast, unless it may hold a float, or a key that UTF-16 puts elsewhere.
    plain = quick.isascii() or max(quick) < "\ud800"
    return quick if plain and not _FLOAT_PATTERN.search(quick) else _canonicalize(value)


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
    """A double as ECMAScript writes it; Python finds the same digits, but sets point and exponent elsewhere."""
    if value == 0:
        return "0"
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "no infinity gets here"
    return "-" * sign + _place_decimal_point("".join(map(str, figures)), len(figures) + exponent)


def _place_decimal_point(digits: str, point: int) -> str:
    """The digits with the point behind so many of them."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"
