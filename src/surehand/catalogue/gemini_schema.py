"""Gemini's own schema: a part of OpenAPI 3.0, without references, with `nullable` and only some of the limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surehand.catalogue.model_schemas import (
    UndescribableTool,
    combine_schemas,
    copy_json,
    dereference,
    flatten_top_level,
)
from surehand.core.schema import JSON

MAX_SCHEMA_PARTS = 5_000
"""References are written out, and a small schema can stand for a huge one."""
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
    """The parameters of a function declaration."""
    shown = _GeminiConverter(schema).convert(flatten_top_level(schema), ())
    return {"type": "object", "properties": {}} | shown


class _GeminiConverter:
    def __init__(self, root: Mapping[str, JSON]) -> None:
        self._root, self._part_count = root, 0

    def convert(self, schema: Any, refs: tuple[str, ...]) -> dict[str, JSON]:
        self._part_count += 1
        if self._part_count > MAX_SCHEMA_PARTS:
            raise UndescribableTool(
                f"its parameters have more than {MAX_SCHEMA_PARTS} parts once references are written out"
            )
        schema, refs = dereference(dict(schema) if isinstance(schema, Mapping) else {}, self._root, refs)
        for part in schema.pop("allOf", ()):
            inner, refs = dereference(dict(part), self._root, refs)
            schema = combine_schemas(schema, inner)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._convert_choice(schema, schema.pop(word), refs)
        kinds = _json_types(schema)
        if len(kinds) == 1:
            return self._convert_single_type(schema, kinds[0], refs)
        return self._convert_choice(schema, [{"type": kind} for kind in kinds], refs)

    def _convert_choice(self, rest: dict[str, JSON], branches: list[Any], refs: tuple[str, ...]) -> dict[str, JSON]:
        """Null becomes `nullable`. Beside `anyOf` nothing else may stand, so the rest goes into its branches."""
        description = rest.pop("description", None)
        possible = [branch for branch in branches if not _is_null(branch)]
        shown = [
            self.convert(combine_schemas(rest, branch), refs) for branch in possible if isinstance(branch, Mapping)
        ]
        for branch in shown if len(possible) < len(branches) else ():
            branch["nullable"] = True
        if description and shown:
            shown[0]["description"] = _join_sentences(description, shown[0].get("description"))
        return shown[0] if len(shown) == 1 else {"anyOf": shown} if shown else {"type": "null"}

    def _convert_single_type(self, schema: dict[str, JSON], json_type: str, refs: tuple[str, ...]) -> dict[str, JSON]:
        shown: dict[str, JSON] = {"type": json_type}
        if description := _join_sentences(schema.get("description"), _describe_values(schema, json_type)):
            shown["description"] = description
        if json_type == "string" and (values := _allowed_values(schema)):
            shown |= {"format": "enum", "enum": [value for value in values if isinstance(value, str)]}
        elif schema.get("format") in _SUPPORTED_FORMATS and json_type in ("string", "integer", "number"):
            shown["format"] = schema["format"]
        shown |= {limit: copy_json(schema[limit]) for limit in _LIMIT_KEYWORDS.get(json_type, ()) if limit in schema}
        shown |= _inclusive_bounds(schema, json_type)
        if json_type == "array":
            shown["items"] = self._convert_items(schema, refs)
        if json_type == "object":
            shown |= self._convert_properties(schema, refs)
        return shown

    def _convert_items(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        items = schema.get("prefixItems", schema.get("items"))
        if not items or items is True:
            return {"type": "string"}
        if not isinstance(items, list):
            return self.convert(items, refs)
        different = [item for number, item in enumerate(items) if item not in items[:number]]
        return self.convert({"anyOf": different}, refs)

    def _convert_properties(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        properties = {name: self.convert(field, refs) for name, field in schema.get("properties", {}).items()}
        required = [name for name in schema.get("required", ()) if name in properties]
        return ({"properties": properties} if properties else {}) | ({"required": required} if required else {})


def _json_types(schema: dict[str, JSON]) -> list[str]:
    """The types that a value may have, told or guessed from the other words."""
    if kind := schema.get("type"):
        return list(kind) if isinstance(kind, list) else [kind]
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    kinds = list(dict.fromkeys(_JSON_TYPE_BY_PYTHON_TYPE.get(type(value), "") for value in _allowed_values(schema)))
    return kinds if kinds and all(kinds) else _ALL_TYPES


def _is_null(branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return False
    return branch.get("type") in ("null", ["null"]) or _allowed_values(branch) == [None]


def _allowed_values(schema: Mapping[str, JSON]) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _describe_values(schema: dict[str, JSON], json_type: str) -> str | None:
    """Only strings can be listed in `enum`; of other values the description tells."""
    types = {"number", "integer"} if json_type == "number" else {json_type} - {"string"}
    values = [value for value in _allowed_values(schema) if _JSON_TYPE_BY_PYTHON_TYPE.get(type(value)) in types]
    if not values:
        return None
    return f"One of: {', '.join(map(json.dumps, values))}."


def _inclusive_bounds(schema: dict[str, JSON], json_type: str) -> dict[str, JSON]:
    """`exclusiveMinimum` and `exclusiveMaximum`, which Gemini does not know, as near as can be said."""
    found = {}
    for word, limit, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = schema.get(word)
        if json_type in ("integer", "number") and isinstance(bound, (int, float)) and not isinstance(bound, bool):
            found[limit] = bound + step if json_type == "integer" and isinstance(bound, int) else bound
    return found


def _join_sentences(*texts: str | None) -> str:
    return " ".join(text for text in texts if text)
