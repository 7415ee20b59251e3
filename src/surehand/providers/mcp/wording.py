"""Wording: a schema as a model is shown it, its prose cleaned, and everything that was agreed on left alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from surehand.core.explain import short_repr
from surehand.core.sanitize import MAX_TEXT_CHARS, MAX_TITLE_CHARS, clean_line, clean_text, has_hidden, has_smuggled
from surehand.providers.mcp.schema import ANY_OBJECT_SCHEMA, UnusableDefinition
from surehand.providers.mcp.walk import NAME_MAP_KEYWORDS, iter_strings

log = logging.getLogger("surehand")

_VERBATIM_KEYWORDS = frozenset({
    "enum", "const", "default", "examples", "pattern", "required", "dependentRequired", "type", "format",
    "$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    "contentEncoding", "contentMediaType", "propertyOrdering",
})  # fmt: skip
"""Keywords whose values are part of what the two sides agreed on: refused or kept, never changed."""


def to_object_schema(schema: Any, where: str) -> dict[str, Any]:
    """The schema as one of an object with properties, which is what models' APIs want; what is none takes anything."""
    kind = schema.get("type") if isinstance(schema, Mapping) else "no schema"
    if kind == "object":
        return dict(schema) if "properties" in schema else {**schema, "properties": {}}
    if kind is None or (isinstance(kind, list) and "object" in kind):
        log.warning("%s: its input schema is of type %s; taken as an object's", where, short_repr(kind))
        return {"properties": {}, **schema, "type": "object"}
    log.warning("%s: its input schema is none of an object (%s); it takes anything", where, short_repr(schema))
    return dict(ANY_OBJECT_SCHEMA)


def clean_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its prose fit to be read; raises `Unusable` where names or values hide something.

    To be called on what `bound` let through: depth is bounded then.
    """
    made = _clean_node(schema)
    fields = made.get("properties")
    if isinstance(fields, dict):  # the short forms of "anything" and "nothing" are not known to everybody
        made["properties"] = {n: {} if f is True else {"not": {}} if f is False else f for n, f in fields.items()}
    return made  # type: ignore[no-any-return]  # a dict gives a dict


def _clean_node(node: Any, *, is_name_map: bool = False) -> Any:
    if isinstance(node, str):
        return clean_text(node)
    if isinstance(node, list):
        return [_clean_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name in node:
        if has_hidden(name):
            raise UnusableDefinition(f"The name {name[:80]!a} in its schema has characters that cannot be seen.")
    return {key: _clean_value(key, value, is_name_map=is_name_map) for key, value in node.items()}


def _clean_value(key: str, value: Any, *, is_name_map: bool) -> Any:
    if is_name_map:
        return _clean_node(value)
    if key == "title" and isinstance(value, str):
        return clean_line(value, MAX_TITLE_CHARS)
    if key == "description" and isinstance(value, str):
        return clean_text(value, MAX_TEXT_CHARS)
    if key in _VERBATIM_KEYWORDS:
        for text in iter_strings(value):
            if has_smuggled(text):
                raise UnusableDefinition(f"A value under {key!r} in its schema hides something: {text[:80]!a}.")
        return value
    return _clean_node(value, is_name_map=key in NAME_MAP_KEYWORDS)
