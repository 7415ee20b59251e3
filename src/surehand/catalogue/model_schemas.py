"""Projections: a tool's JSON Schema as the model APIs take it.

A projection may be looser than the schema, never narrower: a call is checked against the schema itself in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from surehand.core.schema import JSON

_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_SCHEMA_KEYWORDS = (
    "items",
    "additionalProperties",
    "additionalItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
)
_SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class UndescribableTool(Exception):
    """A tool that a model API cannot be shown; the message says why."""


def copy_json(value: Any) -> Any:
    """The same JSON in new lists and dicts, so that nobody's changes reach the tool."""
    if isinstance(value, Mapping):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def to_object_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy that says outright that it is an object, as MCP asks for."""
    _require_object(schema)
    return {**copy_json(schema), "type": "object"}


def _require_object(schema: Mapping[str, JSON]) -> None:
    if "object" not in _schema_types(schema):
        raise UndescribableTool(f"its parameters are of type {schema.get('type')}, not an object")


def to_openai_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """An object with no choice at the top, and no array without `items`."""
    return _add_missing_items(flatten_top_level(schema))


def to_anthropic_schema(schema: Mapping[str, JSON], *, is_raw: bool) -> dict[str, JSON]:
    """An object with no choice at the top, valid by draft 2020-12; `foreign` schemas are not known to be that."""
    shown = _add_missing_items(flatten_top_level(schema))
    for name in shown["properties"]:
        if not _PROPERTY_NAME.match(name):
            raise UndescribableTool(
                f"its parameter {name!r} has characters other than letters, digits, `_`, `.` and `-`"
            )
    if is_raw:
        _require_draft_2020_12(shown)
    return shown


def _require_draft_2020_12(schema: dict[str, JSON]) -> None:
    import jsonschema_rs as js

    schema.pop("$schema", None)
    if not js.meta.is_valid(schema):
        raise UndescribableTool("its parameters are not valid by JSON Schema draft 2020-12")


def flatten_top_level(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """An object schema whose top has no `$ref` and none of the words that combine schemas."""
    shown = _merge_combinators(dict(schema), schema, ())
    _require_object(shown)
    for word in ("enum", "const"):
        if word in shown:
            raise UndescribableTool(f"its parameters are a fixed value (`{word}`), not an object with properties")
    shown.pop("not", None)
    return copy_json({"type": "object", "properties": {}} | shown | {"type": "object"})  # type: ignore[no-any-return]


def _schema_types(schema: Mapping[str, JSON]) -> list[Any]:
    kind = schema.get("type", "object")
    return kind if isinstance(kind, list) else [kind]


def _merge_combinators(schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
    schema, refs = dereference(schema, root, refs)
    for part in schema.pop("allOf", ()):
        schema = combine_schemas(schema, _merge_combinators(dict(part), root, refs))
    for word in ("anyOf", "oneOf"):
        if branches := schema.pop(word, None):
            schema = combine_schemas(
                schema, _union_of_objects([_merge_combinators(dict(branch), root, refs) for branch in branches])
            )
    return schema


def _union_of_objects(branches: list[dict[str, JSON]]) -> dict[str, JSON]:
    """One object that every branch fits: all their properties, and required what all of them require."""
    properties: dict[str, JSON] = {}
    for branch in branches:
        if "object" not in _schema_types(branch):
            raise UndescribableTool("its parameters may be something other than an object")
        for name, field in branch.get("properties", {}).items():
            known = properties.setdefault(name, field)
            properties[name] = field if known == field else {"anyOf": [*_any_of_choices(known), field]}
    needed = [branch.get("required", ()) for branch in branches]
    required = [name for name in needed[0] if all(name in names for names in needed)]
    return {"properties": properties} | ({"required": required} if required else {})


def _any_of_choices(field: JSON) -> list[JSON]:
    return field["anyOf"] if isinstance(field, dict) and set(field) == {"anyOf"} else [field]


def combine_schemas(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> dict[str, JSON]:
    """What fits both: all properties, all that is required; otherwise the second has the say."""
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return both


def dereference(
    schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """The schema with its `$ref` replaced by what it names, and the references followed so far."""
    while (ref := schema.get("$ref")) is not None:
        if ref in refs:
            raise UndescribableTool(f"its parameters refer to themselves ({ref})")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema, refs = combine_schemas(resolve_ref(ref, root), beside), (*refs, ref)
    return schema, refs


def resolve_ref(ref: Any, root: Mapping[str, JSON]) -> dict[str, JSON]:
    """What a local reference names."""
    from urllib.parse import unquote  # loaded on first use: most schemas refer to nothing

    found: Any = root
    path = unquote(ref[1:]).split("/")[1:] if isinstance(ref, str) and ref.startswith("#") else [""]
    for step in path:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise UndescribableTool(f"its parameters refer to {ref}, which is not there")
    return dict(found)


def _add_missing_items(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Arrays as draft 2020-12 has them, each with `items`; changes the copy that it is given."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", {})
    if "array" in _schema_types(schema):
        schema.setdefault("items", {})
    for inner in _inner_schemas(schema):
        _add_missing_items(inner)
    return schema


def _inner_schemas(schema: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    """The schemas directly inside a schema; not the values that merely look like one, such as a default."""
    for word, value in schema.items():
        if word in _SCHEMA_KEYWORDS:
            found: Any = (value,)
        elif word in _SCHEMA_LIST_KEYWORDS:
            found = value
        elif word in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            found = value.values()
        else:
            continue
        yield from (item for item in found if isinstance(item, dict))
