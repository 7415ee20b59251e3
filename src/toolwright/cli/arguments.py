"""Arguments: JSON, or key=value pairs as people type them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from toolwright.core.call import Arguments


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
    if "array" in kinds:
        values = [_parsed(text) for text in texts]
        whole = len(values) == 1 and isinstance(values[0], list)
        return values[0] if whole else [_one(text, _item(schema, key)) for text in texts]
    if len(texts) > 1:
        raise click.UsageError(f"{key} is given {len(texts)} times, and is no list.")
    return _one(texts[0], kinds)


def _one(text: str, kinds: set[str]) -> Any:
    """A text stays text where the schema asks for nothing else: `zip=01234`, `answer=true`."""
    return text if kinds and kinds <= {"string", "null"} else _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _item(schema: Mapping[str, Any], key: str) -> set[str]:
    wanted = _resolved(schema.get("properties", {}).get(key, {}), schema)
    options = [wanted, *(_resolved(option, schema) for option in wanted.get("anyOf", ()))]
    items: Any = next((option["items"] for option in options if isinstance(option.get("items"), Mapping)), {})
    return _kinds(items, schema)


def _kinds(wanted: Any, schema: Mapping[str, Any], depth: int = 5) -> set[str]:
    """The JSON types that a value may have; empty where the schema does not say. A schema may hold itself."""
    wanted = _resolved(wanted, schema)
    found = wanted.get("type", ())
    kinds = {found} if isinstance(found, str) else set(found)
    for option in (*wanted.get("anyOf", ()), *wanted.get("oneOf", ())):
        kinds |= _kinds(option, schema, depth - 1) if depth else set()
    return kinds


def _resolved(wanted: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(wanted, Mapping) and isinstance(reference := wanted.get("$ref"), str):
        wanted = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return wanted if isinstance(wanted, Mapping) else {}
