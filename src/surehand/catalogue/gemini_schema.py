"""Conversion of JSON Schema to the schema of Gemini's API.

That is a part of OpenAPI 3.0, without references, with `nullable` and only some of the limits. A schema that refers to
itself, or that would become huge, is written out to some depth: below it, values are described by their type alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surehand.catalogue.model_schemas import (
    CircularReference,
    UndescribableTool,
    combine_schemas,
    copy_json,
    dereference,
    flatten_top_level,
    resolve_ref,
)
from surehand.core.schema import JSON

MAX_SCHEMA_PARTS = 5_000
MAX_EXPANDED_PARTS = 1_000
"""References are replaced by their targets, so a small schema can become a huge one: they are, up to so many parts."""
REFERENCE_DEPTHS = (32, 8, 4, 2, 1, 0)
"""References that are written out one within the other; the next number is tried if that gives too many parts."""
_ALL_TYPES = ["string", "number", "boolean", "object", "array"]
_SUPPORTED_FORMATS = {"date-time", "float", "double", "int32", "int64"}
_LIMIT_KEYWORDS = {
    "string": ("pattern", "minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_JSON_TYPE_BY_PYTHON_TYPE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def to_gemini_schema(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The `parameters` of a function declaration."""
    flat = flatten_top_level(schema)
    for depth in REFERENCE_DEPTHS:
        try:
            max_parts = MAX_EXPANDED_PARTS if depth else MAX_SCHEMA_PARTS
            converted = _GeminiConverter(schema, depth, max_parts).convert(flat, ())
        except _TooManyParts:
            continue
        return {"type": "object", "properties": {}} | converted
    raise UndescribableTool(f"its parameters have more than {MAX_SCHEMA_PARTS} parts")


class _TooManyParts(Exception):
    """The schema becomes too large if references are written out to this depth."""


class _GeminiConverter:
    def __init__(self, root: Mapping[str, JSON], max_references: int, max_parts: int) -> None:
        self._root = root
        self._max_references = max_references
        self._max_parts = max_parts
        self._part_count = 0

    def convert(self, schema: Any, refs: tuple[str, ...]) -> dict[str, JSON]:
        """Convert a schema at any level; `refs` are the references on the way to it, to find circular ones."""
        self._part_count += 1
        if self._part_count > self._max_parts:
            raise _TooManyParts
        written = dict(schema) if isinstance(schema, Mapping) else {}
        try:
            merged, refs = self._without_references(written, refs)
        except CircularReference:
            return self._outline(written)
        if len(refs) > self._max_references:
            return self._outline(written)
        for keyword in ("anyOf", "oneOf"):
            if keyword in merged:
                return self._convert_choice(merged, merged.pop(keyword), refs)
        json_types = _json_types(merged)
        if len(json_types) == 1:
            return self._convert_single_type(merged, json_types[0], refs)
        return self._convert_choice(merged, [{"type": json_type} for json_type in json_types], refs)

    def _without_references(
        self, schema: dict[str, JSON], refs: tuple[str, ...]
    ) -> tuple[dict[str, JSON], tuple[str, ...]]:
        """The schema with its `$ref` and `allOf` written out, which Gemini does not have."""
        schema, refs = dereference(schema, self._root, refs)
        for part in schema.pop("allOf", ()):
            inner, refs = dereference(dict(part), self._root, refs)
            schema = combine_schemas(schema, inner)
        return schema, refs

    def _outline(self, schema: dict[str, JSON]) -> dict[str, JSON]:
        """The type and description of a schema whose parts are not written out."""
        target = resolve_ref(schema["$ref"], self._root) | schema if "$ref" in schema else schema
        types = _json_types(target)
        json_type = types[0] if len(types) == 1 else "object"
        outline: dict[str, JSON] = {"type": json_type}
        if json_type == "array":
            outline["items"] = {"type": "object"}
        if description := target.get("description"):
            outline["description"] = description
        return outline

    def _convert_choice(self, rest: dict[str, JSON], branches: list[Any], refs: tuple[str, ...]) -> dict[str, JSON]:
        """Convert `anyOf`: null becomes `nullable`. Gemini allows no keywords beside it: they go into the branches."""
        description = rest.pop("description", None)
        non_null = [branch for branch in branches if not _is_null(branch)]
        converted = [
            self.convert(combine_schemas(rest, branch), refs) for branch in non_null if isinstance(branch, Mapping)
        ]
        if len(non_null) < len(branches):
            for branch in converted:
                branch["nullable"] = True
        if not converted:
            return {"type": "null"}
        if description:
            converted[0]["description"] = _join_sentences(description, converted[0].get("description"))
        return converted[0] if len(converted) == 1 else {"anyOf": converted}

    def _convert_single_type(self, schema: dict[str, JSON], json_type: str, refs: tuple[str, ...]) -> dict[str, JSON]:
        converted: dict[str, JSON] = {"type": json_type}
        description = _join_sentences(schema.get("description"), _describe_values(schema, json_type))
        if description:
            converted["description"] = description
        if json_type == "string" and (values := _allowed_values(schema)):
            converted |= {"format": "enum", "enum": [value for value in values if isinstance(value, str)]}
        elif schema.get("format") in _SUPPORTED_FORMATS and json_type in ("string", "integer", "number"):
            converted["format"] = schema["format"]
        for limit in _LIMIT_KEYWORDS.get(json_type, ()):
            if limit in schema:
                converted[limit] = copy_json(schema[limit])
        converted |= _inclusive_bounds(schema, json_type)
        if json_type == "array":
            converted["items"] = self._convert_items(schema, refs)
        if json_type == "object":
            converted |= self._convert_properties(schema, refs)
        return converted

    def _convert_items(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        items = schema.get("prefixItems", schema.get("items"))
        if not items or items is True:
            return {"type": "string"}
        if not isinstance(items, list):
            return self.convert(items, refs)
        distinct = [item for index, item in enumerate(items) if item not in items[:index]]
        return self.convert({"anyOf": distinct}, refs)

    def _convert_properties(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        properties = {name: self.convert(field, refs) for name, field in schema.get("properties", {}).items()}
        required = [name for name in schema.get("required", ()) if name in properties]
        converted: dict[str, JSON] = {}
        if properties:
            converted["properties"] = properties
        if required:
            converted["required"] = required
        return converted


def _json_types(schema: dict[str, JSON]) -> list[str]:
    """The types that a value may have, from `type` or guessed from the other keywords."""
    given_type = schema.get("type")
    if given_type:
        return list(given_type) if isinstance(given_type, list) else [given_type]
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    value_types = [_JSON_TYPE_BY_PYTHON_TYPE.get(type(value), "") for value in _allowed_values(schema)]
    return list(dict.fromkeys(value_types)) if value_types and all(value_types) else _ALL_TYPES


def _is_null(branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return False
    return branch.get("type") in ("null", ["null"]) or _allowed_values(branch) == [None]


def _allowed_values(schema: Mapping[str, JSON]) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _describe_values(schema: dict[str, JSON], json_type: str) -> str | None:
    """A sentence that lists the allowed values that are not strings: Gemini's `enum` can hold strings only."""
    types = {"number", "integer"} if json_type == "number" else {json_type} - {"string"}
    values = [value for value in _allowed_values(schema) if _JSON_TYPE_BY_PYTHON_TYPE.get(type(value)) in types]
    if not values:
        return None
    return f"One of: {', '.join(map(json.dumps, values))}."


def _inclusive_bounds(schema: dict[str, JSON], json_type: str) -> dict[str, JSON]:
    """`exclusiveMinimum` and `exclusiveMaximum`, which Gemini does not have, as the nearest inclusive bounds."""
    if json_type not in ("integer", "number"):
        return {}
    bounds: dict[str, JSON] = {}
    for keyword, limit, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = schema.get(keyword)
        if not isinstance(bound, (int, float)) or isinstance(bound, bool):
            continue
        bounds[limit] = bound + step if json_type == "integer" and isinstance(bound, int) else bound
    return bounds


def _join_sentences(*texts: str | None) -> str:
    return " ".join(text for text in texts if text)
