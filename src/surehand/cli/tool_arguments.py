"""Parses the arguments of `surehand call`: a JSON object, or key=value pairs with the types of the tool's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from surehand.core.call import Arguments


def parse_arguments(words: str | Sequence[str], schema: Mapping[str, Any]) -> Arguments:
    """The arguments of a call: JSON text unchanged, or a dictionary parsed from pairs."""
    match words:
        case str():
            return words
        case []:
            return {}
        case [text] if text.lstrip().startswith(("{", "[")):
            return text
    return _parse_pairs(words, schema)


def _parse_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(
                f"{pair[:80]!r} is not an argument. Give one JSON object, - for stdin, or key=value."
            )
        texts.setdefault(key, []).append(text)
    return {key: _parse_values(key, values, schema) for key, values in texts.items()}


def _parse_values(key: str, texts: list[str], schema: Mapping[str, Any]) -> Any:
    """The value of a key that was given once or, for a list, several times."""
    types = _json_types(schema.get("properties", {}).get(key, {}), schema)
    if types and key not in schema.get("required", ()):
        types = types | {"null"}  # null is as if an optional parameter were left out
    if len(texts) > 1 and "array" not in types:
        raise click.UsageError(f"{key} is given {len(texts)} times, but it is not a list.")
    is_list_only = types - {"null"} == {"array"}
    if len(texts) == 1 and (not is_list_only or _is_of_type(_json_or_text(texts[0]), types)):
        return _parse_value(texts[0], types)
    return [_parse_value(text, _item_types(schema, key)) for text in texts]


def _parse_value(text: str, types: set[str]) -> Any:
    """Parse JSON, but keep the text where the schema wants only text (`zip=01234`) or no such value (`body=5`)."""
    if types and types <= {"string", "null"}:
        return text
    value = _json_or_text(text)
    return text if "string" in types and not _is_of_type(value, types - {"string"}) else value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_of_type(value: Any, types: set[str]) -> bool:
    """Whether a value is of one of the JSON types."""
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return not types.isdisjoint({"integer", "number"})
        case float():
            return "number" in types or (value.is_integer() and "integer" in types)
        case str():
            return "string" in types
    return ("array" if isinstance(value, list) else "object") in types


def _item_types(schema: Mapping[str, Any], key: str) -> set[str]:
    """The JSON types of a list's items."""
    subschema = _resolve_reference(schema.get("properties", {}).get(key, {}), schema)
    candidates = [subschema, *(_resolve_reference(each, schema) for each in _alternatives(subschema))]
    items: Any = next((each["items"] for each in candidates if isinstance(each.get("items"), Mapping)), {})
    return _json_types(items, schema)


def _json_types(subschema: Any, schema: Mapping[str, Any], depth: int = 5) -> set[str]:
    """The JSON types that a value may have; empty if the schema leaves them open.

    Args:
        depth: how many levels of alternatives to follow; a schema may refer to itself.
    """
    subschema = _resolve_reference(subschema, schema)
    declared = subschema.get("type", ())
    types = {declared} if isinstance(declared, str) else set(declared)
    if depth:
        for alternative in _alternatives(subschema):
            types |= _json_types(alternative, schema, depth - 1)
    return types


def _alternatives(subschema: Mapping[str, Any]) -> list[Any]:
    return [*subschema.get("anyOf", ()), *subschema.get("oneOf", ())]


def _resolve_reference(subschema: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(subschema, Mapping) and isinstance(reference := subschema.get("$ref"), str):
        subschema = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return subschema if isinstance(subschema, Mapping) else {}
