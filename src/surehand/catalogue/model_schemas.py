"""Conversion of a tool's JSON Schema to what the model APIs accept.

A converted schema may accept more than the original, never less: arguments are always validated against the original.
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
    """A tool cannot be described in the format of a model API; the message says why."""


class CircularReference(UndescribableTool):
    """A reference leads back to a schema that contains it."""


def copy_json(value: Any) -> Any:
    """A copy with new lists and dictionaries, so that changes to it do not reach the tool."""
    if value is None or isinstance(value, (str, int, float)):  # most are: asking about an abstract class is slow
        return value
    if isinstance(value, Mapping):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def to_object_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy with `type: object`, which MCP requires."""
    _require_object(schema)
    return {**copy_json(schema), "type": "object"}


def _require_object(schema: Mapping[str, JSON]) -> None:
    if "object" not in _schema_types(schema):
        raise UndescribableTool(f"its parameters are of type {schema.get('type')}, not an object")


def to_openai_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A schema without combinators at the top level and without arrays that lack `items`."""
    return _add_missing_items(flatten_top_level(schema))


def to_strict_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The schema in OpenAI's strict form: every property is required, and an optional one may be null instead.

    A call with null is valid: null for an optional parameter is as if it were left out.
    """
    strict = {key: value for key, value in schema.items() if key != "default"}
    for keyword, value in strict.items():
        if keyword in _SCHEMA_LIST_KEYWORDS:
            strict[keyword] = [to_strict_schema(each) if isinstance(each, dict) else each for each in value]
        elif keyword in ("$defs", "definitions"):
            strict[keyword] = {name: to_strict_schema(each) for name, each in value.items()}
    if isinstance(strict.get("items"), dict):
        strict["items"] = to_strict_schema(strict["items"])
    if "properties" not in strict and "object" not in _as_list(strict.get("type")):
        return strict
    if strict.get("additionalProperties", False) is not False:
        raise UndescribableTool("it takes keys of any name, which OpenAI's `strict` does not allow")
    required = strict.get("required", ())
    strict["properties"] = {
        name: to_strict_schema(field) if name in required else _allow_null(to_strict_schema(field))
        for name, field in strict.get("properties", {}).items()
    }
    strict["required"] = list(strict["properties"])
    strict["additionalProperties"] = False
    return strict


def _allow_null(field: dict[str, JSON]) -> dict[str, JSON]:
    """The schema of a field that may also be null."""
    if "null" in _as_list(field.get("type")) or {"type": "null"} in field.get("anyOf", ()):
        return field
    if isinstance(field.get("type"), str) and "enum" not in field and "const" not in field:
        return {**field, "type": [field["type"], "null"]}
    if "anyOf" in field and set(field) <= {"anyOf", "description"}:
        return {**field, "anyOf": [*field["anyOf"], {"type": "null"}]}
    description = {"description": field["description"]} if "description" in field else {}
    rest = {key: value for key, value in field.items() if key != "description"}
    return {"anyOf": [rest, {"type": "null"}], **description}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def to_anthropic_schema(schema: Mapping[str, JSON], *, is_raw: bool) -> dict[str, JSON]:
    """A schema like that for OpenAI, with legal property names, and valid by draft 2020-12.

    Only a raw schema has to be checked for the draft; those of pydantic are valid.
    """
    converted = _add_missing_items(flatten_top_level(schema))
    for name in converted["properties"]:
        if not _PROPERTY_NAME.match(name):
            raise UndescribableTool(
                f"its parameter {name!r} has characters other than letters, digits, `_`, `.` and `-`"
            )
    if is_raw:
        _require_draft_2020_12(converted)
    return converted


def _require_draft_2020_12(schema: dict[str, JSON]) -> None:
    import jsonschema_rs as js  # imported on first use: only raw schemas are checked

    schema.pop("$schema", None)
    if not js.meta.is_valid(schema):
        raise UndescribableTool("its parameters are not valid by JSON Schema draft 2020-12")


def flatten_top_level(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """An object schema without `$ref` and without combinators (`allOf`, `anyOf`, `oneOf`) at the top level."""
    merged = _merge_combinators(dict(schema), schema, ())
    _require_object(merged)
    for keyword in ("enum", "const"):
        if keyword in merged:
            raise UndescribableTool(f"its parameters are a fixed value (`{keyword}`), not an object with properties")
    merged.pop("not", None)
    return copy_json({"type": "object", "properties": {}} | merged | {"type": "object"})  # type: ignore[no-any-return]


def _schema_types(schema: Mapping[str, JSON]) -> list[Any]:
    given_type = schema.get("type", "object")
    return given_type if isinstance(given_type, list) else [given_type]


def _merge_combinators(schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
    schema, refs = dereference(schema, root, refs)
    for part in schema.pop("allOf", ()):
        schema = combine_schemas(schema, _merge_combinators(dict(part), root, refs))
    for keyword in ("anyOf", "oneOf"):
        branches = schema.pop(keyword, None)
        if branches:
            merged_branches = [_merge_combinators(dict(branch), root, refs) for branch in branches]
            schema = combine_schemas(schema, _union_of_objects(merged_branches))
    return schema


def _union_of_objects(branches: list[dict[str, JSON]]) -> dict[str, JSON]:
    """One object schema that accepts the values of every branch. Required is what every branch requires."""
    properties: dict[str, JSON] = {}
    for branch in branches:
        if "object" not in _schema_types(branch):
            raise UndescribableTool("its parameters may be something other than an object")
        for name, field in branch.get("properties", {}).items():
            earlier = properties.setdefault(name, field)
            if earlier != field:
                properties[name] = {"anyOf": [*_any_of_choices(earlier), field]}
    required_lists = [branch.get("required", ()) for branch in branches]
    required = [name for name in required_lists[0] if all(name in names for names in required_lists)]
    union: dict[str, JSON] = {"properties": properties}
    if required:
        union["required"] = required
    return union


def _any_of_choices(field: JSON) -> list[JSON]:
    return field["anyOf"] if isinstance(field, dict) and set(field) == {"anyOf"} else [field]


def combine_schemas(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> dict[str, JSON]:
    """Both schemas in one: the properties and required names of both; of other keywords, those of the second win."""
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return both


def dereference(
    schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """The schema with its `$ref` replaced by the target, and all references followed so far."""
    while (ref := schema.get("$ref")) is not None:
        if ref in refs:
            raise CircularReference(f"its parameters refer to themselves ({ref})")
        other_keywords = {key: value for key, value in schema.items() if key != "$ref"}
        schema = combine_schemas(resolve_ref(ref, root), other_keywords)
        refs = (*refs, ref)
    return schema, refs


def resolve_ref(ref: Any, root: Mapping[str, JSON]) -> dict[str, JSON]:
    """The target of a reference within the schema."""
    from urllib.parse import unquote  # imported on first use: most schemas have no references

    is_local = isinstance(ref, str) and ref.startswith("#")
    path = unquote(ref[1:]).split("/")[1:] if is_local else [""]
    target: Any = root
    for step in path:
        key = step.replace("~1", "/").replace("~0", "~")  # the escapes of a JSON Pointer
        target = target.get(key) if isinstance(target, Mapping) else None
    if not isinstance(target, Mapping):
        raise UndescribableTool(f"its parameters refer to {ref}, which is not there")
    return dict(target)


def _add_missing_items(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Give every array `items`, and write tuples as draft 2020-12 does. Changes the given schema in place."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", {})
    if "array" in _schema_types(schema):
        schema.setdefault("items", {})
    for inner in _inner_schemas(schema):
        _add_missing_items(inner)
    return schema


def _inner_schemas(schema: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    """The schemas directly inside a schema. Data that only looks like a schema, such as a default, is skipped."""
    for keyword, value in schema.items():
        if keyword in _SCHEMA_KEYWORDS:
            candidates: Any = (value,)
        elif keyword in _SCHEMA_LIST_KEYWORDS:
            candidates = value
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            candidates = value.values()
        else:
            continue
        yield from (candidate for candidate in candidates if isinstance(candidate, dict))
