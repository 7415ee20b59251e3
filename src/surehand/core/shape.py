"""What a compiled schema leaves open: `Any` values, and how many keys a value of it was written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Keys = Callable[[dict[str, Any]], int]

_SCALARS = {"int", "float", "str", "bool", "none", "literal", "date", "datetime", "time", "timedelta", "decimal"}
_SCALARS |= {"bytes", "uuid", "url", "enum"}
_OBJECTS = {"typed-dict", "model-fields", "dataclass-args"}
_WRAPPERS = {"definitions", "model", "dataclass", "default", "function-after", "function-before"}
_WRAPPERS |= {"model-field", "typed-dict-field", "dataclass-field"}
_OPEN = {"any", "function-plain", "custom-error", "json", "is-instance", "object", "callable"}


_KEPT = {"serialization", "metadata", "default", "default_factory", "cls", "config", "expected"}


def tightened(schema: Any) -> Any:
    """A core schema that refuses NaN, infinities, and names that an object does not know."""
    return _copied(schema, _tighten)


def lenient(schema: Any) -> Any:
    """One that overlooks unknown names: faster, for where counting the keys shows that there are none."""
    return _copied(schema, _loosen)


def _copied(schema: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """A copy with every part changed; a copy, because pydantic shares these with the model classes themselves."""
    if type(schema) in (list, tuple):
        return type(schema)(_copied(item, change) for item in schema)
    if type(schema) is not dict:
        return schema
    made = {key: value if key in _KEPT else _copied(value, change) for key, value in schema.items()}
    change(made)
    return made


def _tighten(part: dict[str, Any]) -> None:
    if part.get("type") == "float":
        part["allow_inf_nan"] = False
    elif part.get("type") == "list":
        part.setdefault("fail_fast", True)  # one wrong item is told; a hundred thousand would stop the loop
    own = (part.get("config") or {}).get("extra_fields_behavior")
    if part.get("type") in _OBJECTS:
        part.setdefault("extra_behavior", own or "forbid")
    elif own and _unwrap(part).get("type") in _OBJECTS:  # a model that says itself what to do with such names
        _unwrap(part)["extra_behavior"] = own


def _loosen(part: dict[str, Any]) -> None:
    if part.get("extra_behavior") == "forbid":
        part["extra_behavior"] = "ignore"
    if (part.get("config") or {}).get("extra_fields_behavior") == "forbid":
        part["config"] = {**part["config"], "extra_fields_behavior": "ignore"}


def is_open(schema: Any) -> bool:
    """Whether some value in a core schema may be anything."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _KEPT)
        return schema.get("type") in _OPEN or any(map(is_open, inner))
    return isinstance(schema, list | tuple) and any(map(is_open, schema))


def holds_text(schema: Any) -> bool:
    """Whether some value in a core schema may be a string."""
    if isinstance(schema, dict):
        inner = (value for key, value in schema.items() if key not in _KEPT)
        return schema.get("type") == "str" or any(map(holds_text, inner))
    return isinstance(schema, list | tuple) and any(map(holds_text, schema))


def keys_of(schema: dict[str, Any]) -> Keys | None:
    """Counts the keys of a validated value without walking it, where the schema alone tells; else None.

    Comparing that with the colons in the JSON text shows at once that no key was given twice.
    """
    inner = _unwrap(schema)
    if inner.get("type") != "typed-dict":
        return None
    constant = 0
    lists: list[tuple[str, int]] = []
    for name, field in inner["fields"].items():
        fixed, each = _fixed(field), _per_item(field)
        if fixed == 0:
            continue
        if not _required(field):
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
    while schema.get("type") in _WRAPPERS and isinstance(schema.get("schema"), dict):
        schema = schema["schema"]
    return schema


def _fixed(schema: dict[str, Any]) -> int | None:
    """How many keys every value of this schema has; None where values differ."""
    inner = _unwrap(schema)
    match inner.get("type"):
        case kind if kind in _SCALARS:
            return 0
        case "nullable":
            return 0 if _fixed(inner["schema"]) == 0 else None
        case "list":
            return 0 if _per_item(inner) == 0 else None
        case kind if kind in _OBJECTS:
            return _sum_of_required(inner["fields"])
    return None


def _sum_of_required(fields: Any) -> int | None:
    rows = list(fields.values()) if isinstance(fields, dict) else list(fields)
    total = len(rows)
    for row in rows:
        if not _required(row) or (fixed := _fixed(row)) is None:
            return None
        total += fixed
    return total


def _required(field: dict[str, Any]) -> bool:
    return bool(field.get("required", True)) and field.get("schema", {}).get("type") != "default"


def _per_item(field: dict[str, Any]) -> int | None:
    inner = _unwrap(field)
    items = inner.get("items_schema")
    return _fixed(items) if inner.get("type") == "list" and isinstance(items, dict) else None
