"""Copied: a copy of a value that nobody else can change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

T = TypeVar("T")
_FIXED = frozenset({str, int, float, bool, bytes, type(None)})


def copied(value: T) -> T:
    """The same as `deepcopy`, in a fraction of the time for what JSON is made of."""
    return _copied(value, {})  # type: ignore[no-any-return]  # a copy is of the same type


def _copied(value: Any, made: dict[int, Any]) -> Any:
    kind = type(value)
    if kind is not list and kind is not dict:
        return value if kind in _FIXED else deepcopy(value, made)
    if not value:
        return kind()
    if (known := made.get(id(value))) is None:  # one thing may be in many places
        if kind is list:
            known = [each if type(each) in _FIXED else _copied(each, made) for each in value]
        else:
            known = {key: each if type(each) in _FIXED else _copied(each, made) for key, each in value.items()}
        made[id(value)] = known
    return known
