"""Gemini's own schema: a part of OpenAPI 3.0, without references, with `nullable` and only some of the limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surehand.catalogue.projections import Unshowable, combined, copied, dereferenced, flat
from surehand.core.schema import JSON

MAX_PARTS = 5_000
"""References are written out, and a small schema can stand for a huge one."""
_ANYTHING = ["string", "number", "boolean", "object", "array"]
_FORMATS = {"date-time", "float", "double", "int32", "int64"}
_LIMITS = {
    "string": ("pattern", "minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_OF_VALUES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def for_gemini(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The parameters of a function declaration."""
    shown = _Projection(schema).show(flat(schema), ())
    return {"type": "object", "properties": {}} | shown


class _Projection:
    def __init__(self, root: Mapping[str, JSON]) -> None:
        self._root, self._parts = root, 0

    def show(self, schema: Any, refs: tuple[str, ...]) -> dict[str, JSON]:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Unshowable(f"its parameters have more than {MAX_PARTS} parts once references are written out")
        schema, refs = dereferenced(dict(schema) if isinstance(schema, Mapping) else {}, self._root, refs)
        for part in schema.pop("allOf", ()):
            inner, refs = dereferenced(dict(part), self._root, refs)
            schema = combined(schema, inner)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._choice(schema, schema.pop(word), refs)
        kinds = _kinds(schema)
        if len(kinds) == 1:
            return self._one(schema, kinds[0], refs)
        return self._choice(schema, [{"type": kind} for kind in kinds], refs)

    def _choice(self, rest: dict[str, JSON], branches: list[Any], refs: tuple[str, ...]) -> dict[str, JSON]:
        """Null becomes `nullable`. Beside `anyOf` nothing else may stand, so the rest goes into its branches."""
        description = rest.pop("description", None)
        possible = [branch for branch in branches if not _is_null(branch)]
        shown = [self.show(combined(rest, branch), refs) for branch in possible if isinstance(branch, Mapping)]
        for branch in shown if len(possible) < len(branches) else ():
            branch["nullable"] = True
        if description and shown:
            shown[0]["description"] = _sentences(description, shown[0].get("description"))
        return shown[0] if len(shown) == 1 else {"anyOf": shown} if shown else {"type": "null"}

    def _one(self, schema: dict[str, JSON], kind: str, refs: tuple[str, ...]) -> dict[str, JSON]:
        shown: dict[str, JSON] = {"type": kind}
        if description := _sentences(schema.get("description"), _values_told(schema, kind)):
            shown["description"] = description
        if kind == "string" and (values := _values(schema)):
            shown |= {"format": "enum", "enum": [value for value in values if isinstance(value, str)]}
        elif schema.get("format") in _FORMATS and kind in ("string", "integer", "number"):
            shown["format"] = schema["format"]
        shown |= {limit: copied(schema[limit]) for limit in _LIMITS.get(kind, ()) if limit in schema}
        shown |= _bounds(schema, kind)
        if kind == "array":
            shown["items"] = self._items(schema, refs)
        if kind == "object":
            shown |= self._fields(schema, refs)
        return shown

    def _items(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        items = schema.get("prefixItems", schema.get("items"))
        if not items or items is True:
            return {"type": "string"}
        if not isinstance(items, list):
            return self.show(items, refs)
        different = [item for number, item in enumerate(items) if item not in items[:number]]
        return self.show({"anyOf": different}, refs)

    def _fields(self, schema: dict[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
        properties = {name: self.show(field, refs) for name, field in schema.get("properties", {}).items()}
        required = [name for name in schema.get("required", ()) if name in properties]
        return ({"properties": properties} if properties else {}) | ({"required": required} if required else {})


def _kinds(schema: dict[str, JSON]) -> list[str]:
    """The types that a value may have, told or guessed from the other words."""
    if kind := schema.get("type"):
        return list(kind) if isinstance(kind, list) else [kind]
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    kinds = list(dict.fromkeys(_OF_VALUES.get(type(value), "") for value in _values(schema)))
    return kinds if kinds and all(kinds) else _ANYTHING


def _is_null(branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return False
    return branch.get("type") in ("null", ["null"]) or _values(branch) == [None]


def _values(schema: Mapping[str, JSON]) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _values_told(schema: dict[str, JSON], kind: str) -> str | None:
    """Only strings can be listed in `enum`; of other values the description tells."""
    types = {"number", "integer"} if kind == "number" else {kind} - {"string"}
    values = [value for value in _values(schema) if _OF_VALUES.get(type(value)) in types]
    if not values:
        return None
    return f"One of: {', '.join(map(json.dumps, values))}."


def _bounds(schema: dict[str, JSON], kind: str) -> dict[str, JSON]:
    """`exclusiveMinimum` and `exclusiveMaximum`, which Gemini does not know, as near as can be said."""
    found = {}
    for word, limit, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = schema.get(word)
        if kind in ("integer", "number") and isinstance(bound, (int, float)) and not isinstance(bound, bool):
            found[limit] = bound + step if kind == "integer" and isinstance(bound, int) else bound
    return found


def _sentences(*texts: str | None) -> str:
    return " ".join(text for text in texts if text)
