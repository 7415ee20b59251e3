"""Outlines of a JSON Schema: what it asks for, in few words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

MAX_NESTED_FIELDS = 8
"""Fields named of an object inside another."""


def describe_expected_arguments(schema: dict[str, Any]) -> str:
    """One sentence on what a tool takes."""
    required = set(schema.get("required", ()))
    fields = [
        f"{name} ({describe_field_type(field, schema)}{'' if name in required else ', optional'})"
        for name, field in islice(schema.get("properties", {}).items(), 20)
    ]
    return f"Expected: {', '.join(fields)}." if fields else "Expected: no arguments."


def describe_field_type(field: Any, schema: dict[str, Any], *, depth: int = 0) -> str:
    """What one field may be: `integer`, `string or null`, `one of 'a', 'b'`, `object: to, subject`."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict) or depth > 3:
        return "any"
    if "enum" in field or "const" in field:
        return "one of " + ", ".join(map(repr, field.get("enum", [field.get("const")])[:10]))
    for choice in ("anyOf", "oneOf"):
        if isinstance(field.get(choice), list):
            return " or ".join(
                dict.fromkeys(
                    describe_field_type(one, schema, depth=depth + 1) for one in field[choice][:MAX_NESTED_FIELDS]
                )
            )
    kind = field.get("type", "any")
    if kind == "array":
        return (
            f"array of {describe_field_type(field['items'], schema, depth=depth + 1)}" if "items" in field else "array"
        )
    if kind == "object" and depth < 2 and field.get("properties"):
        return "object: " + ", ".join(islice(field["properties"], MAX_NESTED_FIELDS))
    return kind if isinstance(kind, str) else " or ".join(map(str, kind))


def property_names_at(schema: dict[str, Any], path: Iterable[Any]) -> list[str]:
    """The names that are known at a place in the arguments."""
    field: Any = schema
    for step in path:
        field = _object_schema(field, schema)
        inner = field.get("items") if isinstance(step, int) else field.get("properties", {}).get(step)
        field = inner if isinstance(inner, dict) else {}
    return list(_object_schema(field, schema).get("properties", {}))


def _object_schema(field: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The field itself, or the first of its choices that has fields or items."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict):
        return {}
    choices = [_resolve_ref(one, schema) for one in field.get("anyOf") or field.get("oneOf") or ()]
    return next((one for one in choices if isinstance(one, dict) and ("properties" in one or "items" in one)), field)


def _resolve_ref(field: Any, schema: dict[str, Any]) -> Any:
    ref = field.get("$ref") if isinstance(field, dict) else None
    if not isinstance(ref, str):
        return field
    return schema.get("$defs", schema.get("definitions", {})).get(ref.rpartition("/")[2], {})
