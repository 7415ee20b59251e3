"""Arguments: JSON, or key=value pairs as people type them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from surehand.core.call import Arguments


def read_arguments(given: str | Sequence[str], schema: Mapping[str, Any]) -> Arguments:
    """What to call a tool with: JSON as it is, and pairs as the tool's schema says."""
    match given:
        case str():
            return given
        case []:
            return {}
        case [text] if text.lstrip().startswith(("{", "[")):
            return text
    return _from_pairs(given, schema)


def _from_pairs(given: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    texts: dict[str, list[str]] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair[:80]!r} is no argument: give one JSON object, - for stdin, or key=value.")
        texts.setdefault(key, []).append(text)
    return {key: _value(key, values, schema) for key, values in texts.items()}


def _value(key: str, texts: list[str], schema: Mapping[str, Any]) -> Any:
    kinds = _kinds(schema.get("properties", {}).get(key, {}), schema)
    if len(texts) > 1 and "array" not in kinds:
        raise click.UsageError(f"{key} is given {len(texts)} times, and is no list.")
    if len(texts) == 1 and (kinds - {"null"} != {"array"} or _fits(_parsed(texts[0]), kinds)):
        return _one(texts[0], kinds)
    return [_one(text, _item(schema, key)) for text in texts]


def _one(text: str, kinds: set[str]) -> Any:
    """A text stays text where the schema asks for nothing else (`zip=01234`), or for no such JSON (`body=5`)."""
    if kinds and kinds <= {"string", "null"}:
        return text
    value = _parsed(text)
    return text if "string" in kinds and not _fits(value, kinds - {"string"}) else value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _fits(value: Any, kinds: set[str]) -> bool:
    """Whether a value is of one of these types."""
    match value:
        case None:
            return "null" in kinds
        case bool():
            return "boolean" in kinds
        case int():
            return not kinds.isdisjoint({"integer", "number"})
        case float():
            return "number" in kinds or (value.is_integer() and "integer" in kinds)
        case str():
            return "string" in kinds
    return ("array" if isinstance(value, list) else "object") in kinds


def _item(schema: Mapping[str, Any], key: str) -> set[str]:
    wanted = _resolved(schema.get("properties", {}).get(key, {}), schema)
    options = [wanted, *(_resolved(option, schema) for option in _options(wanted))]
    items: Any = next((option["items"] for option in options if isinstance(option.get("items"), Mapping)), {})
    return _kinds(items, schema)


def _kinds(wanted: Any, schema: Mapping[str, Any], depth: int = 5) -> set[str]:
    """The JSON types that a value may have; empty where the schema does not say. A schema may hold itself."""
    wanted = _resolved(wanted, schema)
    found = wanted.get("type", ())
    kinds = {found} if isinstance(found, str) else set(found)
    for option in _options(wanted):
        kinds |= _kinds(option, schema, depth - 1) if depth else set()
    return kinds


def _options(wanted: Mapping[str, Any]) -> list[Any]:
    return [*wanted.get("anyOf", ()), *wanted.get("oneOf", ())]


def _resolved(wanted: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(wanted, Mapping) and isinstance(reference := wanted.get("$ref"), str):
        wanted = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return wanted if isinstance(wanted, Mapping) else {}
