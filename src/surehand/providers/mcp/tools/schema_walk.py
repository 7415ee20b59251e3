"""Walks through JSON Schemas and JSON values: subschemas, patterns, references, sizes and non-finite numbers.

Most walks are iterative: the input is untrusted, and its depth may not be bounded yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

NAME_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas."""
_VALUE_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")


def iter_objects(root: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, even inside plain values: a `$ref` can point to any of them."""
    level = [root]
    while level:
        yield from (node for node in level if isinstance(node, dict))
        level = [inner for node in level for inner in children_of(node)]


def iter_strings(value: Any) -> Iterator[str]:
    """Every string in a value, keys too."""
    level = [value]
    while level:
        yield from (item for item in level if isinstance(item, str))
        level = [inner for item in level for inner in children_of(item)]


def children_of(value: Any) -> list[Any]:
    """The items of a value, and the keys of an object."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return list(value) if isinstance(value, (list, tuple)) else []


def find_external_reference(schema: dict[str, Any]) -> str | None:
    """The first reference that leads out of this schema."""
    identifiers = [node.get("$id") for node in iter_objects(schema)]
    documents = {identifier.partition("#")[0] for identifier in identifiers if isinstance(identifier, str)}
    for node in iter_subschemas(schema):
        for keyword in _REFERENCE_KEYWORDS:
            reference = node.get(keyword)
            if not isinstance(reference, str) or reference.startswith("#"):
                continue
            if reference.partition("#")[0] not in documents:
                return reference
    return None


def iter_subschemas(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every object in the place of a schema: no maps of names, and none inside plain values."""
    level: list[tuple[Any, bool]] = [(root, False)]
    while level:
        yield from (node for node, is_name_map in level if isinstance(node, dict) and not is_name_map)
        level = [child for node, is_name_map in level for child in _children_in_schema(node, is_name_map)]


def _children_in_schema(node: Any, is_name_map: bool) -> list[tuple[Any, bool]]:
    if isinstance(node, list):
        return [(item, False) for item in node]
    if not isinstance(node, dict):
        return []
    return [
        (value, not is_name_map and key in NAME_MAP_KEYWORDS)
        for key, value in node.items()
        if is_name_map or key not in _VALUE_KEYWORDS
    ]


def iter_patterns(schema: Any) -> Iterator[str]:
    """Every regular expression in a schema."""
    for node in iter_objects(schema):
        if isinstance(pattern := node.get("pattern"), str):
            yield pattern
        if isinstance(by_pattern := node.get("patternProperties"), dict):
            yield from by_pattern


def remove_patterns(node: Any) -> Any:
    """A copy without regular expressions. It recurses: call it only for schemas of bounded depth."""
    if isinstance(node, list):
        return [remove_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    # A property may be called "pattern", and then has a schema for its value.
    others = {key: value for key, value in node.items() if key != "pattern" or not isinstance(value, str)}
    return {key: {} if key == "patternProperties" else remove_patterns(value) for key, value in others.items()}


def count_comparisons(schema: Any) -> int:
    """How many values and patterns are compared with a value one by one. Scalar choices are hashed, and not counted."""
    count = 0
    for node in iter_objects(schema):
        choices = [*children_of(node.get("enum")), node.get("const")]
        count += sum(measure_json(choice)[0] for choice in choices if isinstance(choice, (dict, list)))
        count += len(children_of(node.get("patternProperties")))
    return count


def replace_non_finite(value: Any) -> Any:
    """A JSON value with null for NaN and infinities; the same object if it has none."""
    return value if is_finite(value) else _replace_non_finite(value)


def is_finite(value: Any) -> bool:
    """Whether a JSON value holds neither NaN nor infinities."""
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict):
            remaining += item.values()
        elif isinstance(item, (list, tuple)):
            remaining += item
        elif isinstance(item, float) and not isfinite(item):
            return False
    return True


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def measure_json(value: Any, limit: float = inf) -> tuple[int, int]:
    """The number of values and of characters in a JSON value; keys count as both. Counting stops at `limit`."""
    remaining = [value]
    parts = 0
    characters = 0
    while remaining and parts < limit and characters < limit:
        parts += 1
        item = remaining.pop()
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, (dict, list, tuple)):
            remaining += children_of(item)
    return parts, characters
