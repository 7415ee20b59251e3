"""Copied: a copy of a value that nobody else can change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

T = TypeVar("T")
_IMMUTABLE_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def fast_deepcopy(value: T) -> T:
    """The same as `deepcopy`, in a fraction of the time for what JSON is made of."""
    return _copy_value(value, {})  # type: ignore[no-any-return]  # a copy is of the same type


def _copy_value(value: Any, copies: dict[int, Any]) -> Any:
    kind = type(value)
    if kind is not list and kind is not dict:
        return value if kind in _IMMUTABLE_TYPES else deepcopy(value, copies)
    if not value:
        return kind()
    if (known := copies.get(id(value))) is None:  # one thing may be in many places
        if kind is list:
            known = [each if type(each) in _IMMUTABLE_TYPES else _copy_value(each, copies) for each in value]
        else:
            known = {
                key: each if type(each) in _IMMUTABLE_TYPES else _copy_value(each, copies)
                for key, each in value.items()
            }
        copies[id(value)] = known
    return known
