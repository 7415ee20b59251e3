"""What a compiled schema leaves open: `Any` values, and how many keys a value of it was written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KeyCounter = Callable[[dict[str, Any]], int]

_SCALAR_TYPES = {"int", "float", "str", "bool", "none", "literal", "date", "datetime", "time", "timedelta", "decimal"}
_SCALAR_TYPES |= {"bytes", "uuid", "url", "enum"}
_OBJECT_TYPES = {"typed-dict", "model-fields", "dataclass-args"}
_WRAPPER_TYPES = {"definitions", "model", "dataclass", "default", "function-after", "function-before"}
_WRAPPER_TYPES |= {"model-field", "typed-dict-field", "dataclass-field"}
_ANY_VALUE_TYPES = {"any", "function-plain", "custom-error", "json", "is-instance", "object", "callable"}


_UNVISITED_KEYS = {"serialization", "metadata", "default", "default_factory", "cls", "config", "expected"}


def make_strict(schema: Any) -> Any:
    """A core schema that refuses NaN, infinities, and names that an object does not know."""
    return _copy_with_changes(schema, _make_part_strict)


def make_lenient(schema: Any) -> Any:
    """One that overlooks unknown names: faster, for where counting the keys shows that there are none."""
    return _copy_with_changes(schema, _make_part_lenient)


def _copy_with_changes(schema: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """A copy with every part changed; a copy, because pydantic shares these with the model classes themselves."""
    if type(schema) in (list, tuple):
        return type(schema)(_copy_with_changes(item, change) for item in schema)
    if type(schema) is not dict:
        return schema
    made = {
        key: value if key in _UNVISITED_KEYS else _copy_with_changes(value, change) for key, value in schema.items()
    }
    change(made)
    return made


def _make_part_strict(part: dict[str, Any]) -> None:
    if part.get("type") == "float":
        part["allow_inf_nan"] = False
    elif part.get("type") == "list":
        part.setdefault("fail_fast", True)  # one wrong item is told; a hundred thousand would stop the loop
    own = (part.get("config") or {}).get("extra_fields_behavior")
    if part.get("type") in _OBJECT_TYPES:
        part.setdefault("extra_behavior", own or "forbid")
    elif own and _unwrap(part).get("type") in _OBJECT_TYPES:  # a model that says itself what to do with such names
        _unwrap(part)["extra_behavior"] = own


def _make_part_lenient(part: dict[str, Any]) -> None:
    if part.get("extra_behavior") == "forbid":
        part["extra_behavior"] = "ignore"
    if (part.get("config") or {}).get("extra_fields_behavior") == "forbid":
        part["config"] = {**part["config"], "extra_fields_behavior": "ignore"}


def accepts_any_value(schema: Any) -> bool:
    """Whether some value in a core schema may be anything."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _UNVISITED_KEYS)
        return schema.get("type") in _ANY_VALUE_TYPES or any(map(accepts_any_value, inner))
    return isinstance(schema, list | tuple) and any(map(accepts_any_value, schema))


def accepts_strings(schema: Any) -> bool:
    """Whether some value in a core schema may be a string."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _UNVISITED_KEYS)
        return schema.get("type") == "str" or any(map(accepts_strings, inner))
    return isinstance(schema, list | tuple) and any(map(accepts_strings, schema))


def build_key_counter(schema: dict[str, Any]) -> KeyCounter | None:
    """Counts the keys of a validated value without walking it, where the schema alone tells; else None.

    Comparing that with the colons in the JSON text shows at once that no key was given twice.
    """
    inner = _unwrap(schema)
    if inner.get("type") != "typed-dict":
        return None
    constant = 0
    lists: list[tuple[str, int]] = []
    for name, field in inner["fields"].items():
        fixed, each = _fixed_key_count(field), _key_count_per_item(field)
        if fixed == 0:
            continue
        if not _is_required(field):
            return None
        if fixed is not None:
            constant += fixed
        elif each is not None:
            lists.append((name, each))
        else:
            return None
    if not constant and not lists:
        return len
    return lambda values: len(values) + constant + sum(each * len(values[name]) for name, each in lists)


def _unwrap(schema: dict[str, Any]) -> dict[str, Any]:
    while schema.get("type") in _WRAPPER_TYPES and isinstance(schema.get("schema"), dict):
        schema = schema["schema"]
    return schema


def _fixed_key_count(schema: dict[str, Any]) -> int | None:
    """How many keys every value of this schema has; None where values differ."""
    inner = _unwrap(schema)
    match inner.get("type"):
        case kind if kind in _SCALAR_TYPES:
            return 0
        case "nullable":
            return 0 if _fixed_key_count(inner["schema"]) == 0 else None
        case "list":
            return 0 if _key_count_per_item(inner) == 0 else None
        case kind if kind in _OBJECT_TYPES:
            return _sum_key_counts(inner["fields"])
    return None


def _sum_key_counts(fields: Any) -> int | None:
    rows = list(fields.values()) if isinstance(fields, dict) else list(fields)
    total = len(rows)
    for row in rows:
        if not _is_required(row) or (fixed := _fixed_key_count(row)) is None:
            return None
        total += fixed
    return total


def _is_required(field: dict[str, Any]) -> bool:
    return bool(field.get("required", True)) and field.get("schema", {}).get("type") != "default"


def _key_count_per_item(field: dict[str, Any]) -> int | None:
    inner = _unwrap(field)
    items = inner.get("items_schema")
    return _fixed_key_count(items) if inner.get("type") == "list" and isinstance(items, dict) else None
