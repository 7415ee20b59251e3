"""Core schemas of pydantic: make them stricter, and find out what values they accept and how many keys these have.

`TypedParameters` uses it. It depends on the format of pydantic's core schemas, which pydantic documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KeyCounter = Callable[[dict[str, Any]], int]
"""Counts the keys of a validated value, at all levels."""

_SCALAR_TYPES = {"int", "float", "str", "bool", "none", "literal", "date", "datetime", "time", "timedelta", "decimal"}
_SCALAR_TYPES |= {"bytes", "uuid", "url", "enum"}
_OBJECT_TYPES = {"typed-dict", "model-fields", "dataclass-args"}
_WRAPPER_TYPES = {"definitions", "model", "dataclass", "default", "function-after", "function-before"}
_WRAPPER_TYPES |= {"model-field", "typed-dict-field", "dataclass-field"}
_ANY_VALUE_TYPES = {"any", "function-plain", "custom-error", "json", "is-instance", "object", "callable"}
# Keys of a core schema whose values are not schemas, though they may look like one.
_UNVISITED_KEYS = {"serialization", "metadata", "default", "default_factory", "cls", "config", "expected"}


def make_strict(schema: Any) -> Any:
    """A copy that rejects NaN, infinities, and field names that an object does not have."""
    return _copy_with_changes(schema, _make_part_strict)


def make_lenient(schema: Any) -> Any:
    """A copy that ignores unknown field names. It is faster, for values whose keys are counted instead."""
    return _copy_with_changes(schema, _make_part_lenient)


def _copy_with_changes(schema: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """A copy with every part changed. It must be a copy: pydantic shares core schemas with the model classes."""
    if type(schema) in (list, tuple):
        return type(schema)(_copy_with_changes(item, change) for item in schema)
    if type(schema) is not dict:
        return schema
    copy = {
        key: value if key in _UNVISITED_KEYS else _copy_with_changes(value, change) for key, value in schema.items()
    }
    change(copy)
    return copy


def _make_part_strict(part: dict[str, Any]) -> None:
    if part.get("type") == "float":
        part["allow_inf_nan"] = False
    elif part.get("type") == "list":
        # Report the first wrong item only: building a hundred thousand errors would block the event loop.
        part.setdefault("fail_fast", True)
    configured = (part.get("config") or {}).get("extra_fields_behavior")
    if part.get("type") in _OBJECT_TYPES:
        part.setdefault("extra_behavior", configured or "forbid")
    elif configured and _unwrap(part).get("type") in _OBJECT_TYPES:  # the model itself configures extra fields
        _unwrap(part)["extra_behavior"] = configured


def _make_part_lenient(part: dict[str, Any]) -> None:
    if part.get("extra_behavior") == "forbid":
        part["extra_behavior"] = "ignore"
    if (part.get("config") or {}).get("extra_fields_behavior") == "forbid":
        part["config"] = {**part["config"], "extra_fields_behavior": "ignore"}


def accepts_any_value(schema: Any) -> bool:
    """Whether a core schema has a part that accepts any value."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _UNVISITED_KEYS)
        return schema.get("type") in _ANY_VALUE_TYPES or any(map(accepts_any_value, inner))
    return isinstance(schema, list | tuple) and any(map(accepts_any_value, schema))


def accepts_strings(schema: Any) -> bool:
    """Whether a core schema has a part that accepts strings."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _UNVISITED_KEYS)
        return schema.get("type") == "str" or any(map(accepts_strings, inner))
    return isinstance(schema, list | tuple) and any(map(accepts_strings, schema))


def build_key_counter(schema: dict[str, Any]) -> KeyCounter | None:
    """A function that counts keys without walking the value; None if the schema alone does not determine their number.

    If a JSON text has as many colons as its value has keys, no key is repeated and no unknown key was ignored.
    """
    object_schema = _unwrap(schema)
    if object_schema.get("type") != "typed-dict":
        return None
    constant = 0
    lists: list[tuple[str, int]] = []
    for name, field in object_schema["fields"].items():
        fixed = _fixed_key_count(field)
        per_item = _key_count_per_item(field)
        if fixed == 0:
            continue
        if not _is_required(field):
            return None
        if fixed is not None:
            constant += fixed
        elif per_item is not None:
            lists.append((name, per_item))
        else:
            return None
    if not constant and not lists:
        return len
    return lambda values: len(values) + constant + sum(per_item * len(values[name]) for name, per_item in lists)


def _unwrap(schema: dict[str, Any]) -> dict[str, Any]:
    while schema.get("type") in _WRAPPER_TYPES and isinstance(schema.get("schema"), dict):
        schema = schema["schema"]
    return schema


def _fixed_key_count(schema: dict[str, Any]) -> int | None:
    """The number of keys that every value of this schema has; None if values differ."""
    inner = _unwrap(schema)
    match inner.get("type"):
        case schema_type if schema_type in _SCALAR_TYPES:
            return 0
        case "nullable":
            return 0 if _fixed_key_count(inner["schema"]) == 0 else None
        case "list":
            return 0 if _key_count_per_item(inner) == 0 else None
        case schema_type if schema_type in _OBJECT_TYPES:
            return _sum_key_counts(inner["fields"])
    return None


def _sum_key_counts(fields: Any) -> int | None:
    field_list = list(fields.values()) if isinstance(fields, dict) else list(fields)
    total = len(field_list)
    for field in field_list:
        count = _fixed_key_count(field)
        if count is None or not _is_required(field):
            return None
        total += count
    return total


def _is_required(field: dict[str, Any]) -> bool:
    return bool(field.get("required", True)) and field.get("schema", {}).get("type") != "default"


def _key_count_per_item(field: dict[str, Any]) -> int | None:
    inner = _unwrap(field)
    items = inner.get("items_schema")
    if inner.get("type") != "list" or not isinstance(items, dict):
        return None
    return _fixed_key_count(items)
