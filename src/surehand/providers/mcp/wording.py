"""Wording: a schema as a model is shown it, its prose cleaned, and everything that was agreed on left alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from surehand.core.explain import preview
from surehand.core.sanitize import MAX_TEXT_CHARS, MAX_TITLE_CHARS, clean_line, clean_text, has_hidden, has_smuggled
from surehand.providers.mcp.schema import OPEN, Unusable
from surehand.providers.mcp.walk import NAMED, texts

log = logging.getLogger("surehand")

_CONTRACT = frozenset({
    "enum", "const", "default", "examples", "pattern", "required", "dependentRequired", "type", "format",
    "$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    "contentEncoding", "contentMediaType", "propertyOrdering",
})  # fmt: skip
"""Keywords whose values are part of what the two sides agreed on: refused or kept, never changed."""


def object_schema(given: Any, where: str) -> dict[str, Any]:
    """The schema as one of an object with properties, which is what models' APIs want; what is none takes anything."""
    kind = given.get("type") if isinstance(given, Mapping) else "no schema"
    if kind == "object":
        return dict(given) if "properties" in given else {**given, "properties": {}}
    if kind is None or (isinstance(kind, list) and "object" in kind):
        log.warning("%s: its input schema is of type %s; taken as an object's", where, preview(kind))
        return {"properties": {}, **given, "type": "object"}
    log.warning("%s: its input schema is none of an object (%s); it takes anything", where, preview(given))
    return dict(OPEN)


def cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its prose fit to be read; raises `Unusable` where names or values hide something.

    To be called on what `bound` let through: depth is bounded then.
    """
    made = _cleaned(schema)
    fields = made.get("properties")
    if isinstance(fields, dict):  # the short forms of "anything" and "nothing" are not known to everybody
        made["properties"] = {n: {} if f is True else {"not": {}} if f is False else f for n, f in fields.items()}
    return made  # type: ignore[no-any-return]  # a dict gives a dict


def _cleaned(node: Any, *, named: bool = False) -> Any:
    if isinstance(node, str):
        return clean_text(node)
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name in node:
        if has_hidden(name):
            raise Unusable(f"The name {name[:80]!a} in its schema has characters that cannot be seen.")
    return {key: _value(key, value, named=named) for key, value in node.items()}


def _value(key: str, value: Any, *, named: bool) -> Any:
    if named:
        return _cleaned(value)
    if key == "title" and isinstance(value, str):
        return clean_line(value, MAX_TITLE_CHARS)
    if key == "description" and isinstance(value, str):
        return clean_text(value, MAX_TEXT_CHARS)
    if key in _CONTRACT:
        for text in texts(value):
            if has_smuggled(text):
                raise Unusable(f"A value under {key!r} in its schema hides something: {text[:80]!a}.")
        return value
    return _cleaned(value, named=key in NAMED)
