"""Null for an optional parameter, which models often send: it means the same as leaving the parameter out.

The parameters of a tool (`schema.py`, `raw_schema.py`) use it, only after a validation has failed, so that it costs
valid calls nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surehand.core.argument_errors import object_schema_at

MAX_NULL_ROUNDS = 8
"""How often arguments are validated again: a list reports only its first invalid item."""
_EACH_ITEM = object()
"""A step of a path that stands for all items of a list."""


def without_null_properties(
    values: Mapping[str, Any], paths: Iterable[Sequence[Any]], schema: dict[str, Any]
) -> dict[str, Any] | None:
    """A copy without the optional properties at these paths that are null; None if there are none.

    A path through a list stands for the same property of all its items. Keys of a free mapping, and items of a list,
    are no properties: their nulls stay.
    """
    patterns = {pattern for path in paths if (pattern := _find_null_property(values, path, schema)) is not None}
    return _copy_without(values, patterns) if patterns else None


def _find_null_property(values: Any, path: Sequence[Any], schema: dict[str, Any]) -> tuple[Any, ...] | None:
    """The path to an optional property that is null, with `_EACH_ITEM` for list indexes; None if there is none."""
    pattern: list[Any] = []
    found: list[Any] = []
    current = values
    for step in path:
        if isinstance(current, list) and isinstance(step, int) and step < len(current):
            pattern.append(_EACH_ITEM)
        elif isinstance(current, Mapping) and step in current:
            pattern.append(step)
        else:
            continue  # pydantic puts the names of a union's types into paths
        found.append(step)
        current = current[step]
    if current is not None or not found:
        return None
    parent = object_schema_at(schema, found[:-1])
    name = found[-1]
    is_optional = name in parent.get("properties", {}) and name not in parent.get("required", ())
    return tuple(pattern) if is_optional else None


def _copy_without(value: Any, patterns: set[tuple[Any, ...]]) -> Any:
    """The value without the nulls at the patterns. Parts that no pattern leads to are not copied."""
    if isinstance(value, list):
        inner = _patterns_below(patterns, _EACH_ITEM)
        return [_copy_without(item, inner) for item in value] if inner else value
    if not isinstance(value, Mapping):
        return value
    copy: dict[str, Any] = {}
    for name, item in value.items():
        inner = _patterns_below(patterns, name)
        if item is not None or () not in inner:
            copy[name] = _copy_without(item, inner - {()}) if inner else item
    return copy


def _patterns_below(patterns: set[tuple[Any, ...]], step: Any) -> set[tuple[Any, ...]]:
    return {pattern[1:] for pattern in patterns if pattern[0] == step}
