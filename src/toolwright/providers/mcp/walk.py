"""Walks through a JSON Schema: what stands in it, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names."""
_VALUES = frozenset({"const", "enum", "default", "examples"})
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


def nodes(root: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a schema, even inside plain values: a `$ref` can make a schema of any of them."""
    level = [root]
    while level:
        yield from (node for node in level if isinstance(node, dict))
        level = [inner for node in level for inner in parts_of(node)]


def texts(value: Any) -> Iterator[str]:
    """Every string in a value, keys too."""
    level = [value]
    while level:
        yield from (item for item in level if isinstance(item, str))
        level = [inner for item in level for inner in parts_of(item)]


def parts_of(value: Any) -> list[Any]:
    """What a value holds, keys too."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return list(value) if isinstance(value, (list, tuple)) else []


def from_elsewhere(schema: dict[str, Any]) -> str | None:
    """A reference to what is not in this schema."""
    ids = {one.partition("#")[0] for node in nodes(schema) if isinstance(one := node.get("$id"), str)}
    for node in schemas(schema):
        for ref in (node.get(key) for key in _REFS):
            if isinstance(ref, str) and not ref.startswith("#") and ref.partition("#")[0] not in ids:
                return ref
    return None


def schemas(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every mapping that stands where a schema does: not those of names, and none inside plain values."""
    level: list[tuple[Any, bool]] = [(root, False)]
    while level:
        yield from (node for node, named in level if isinstance(node, dict) and not named)
        level = [inner for node, named in level for inner in _below(node, named)]


def _below(node: Any, named: bool) -> list[tuple[Any, bool]]:
    if isinstance(node, list):
        return [(item, False) for item in node]
    if not isinstance(node, dict):
        return []
    return [(value, not named and key in NAMED) for key, value in node.items() if named or key not in _VALUES]


def patterns(schema: Any) -> Iterator[str]:
    """Every regular expression in a schema."""
    for node in nodes(schema):
        if isinstance(pattern := node.get("pattern"), str):
            yield pattern
        if isinstance(named := node.get("patternProperties"), dict):
            yield from named


def without_patterns(node: Any) -> Any:
    """The same with no regular expressions; recurses, for schemas whose depth is known to be bounded."""
    if isinstance(node, list):
        return [without_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "pattern" or not isinstance(value, str)}
    return {key: {} if key == "patternProperties" else without_patterns(value) for key, value in kept.items()}


def compared(schema: Any) -> int:
    """With how many parts and patterns a value may be compared one after the other; plain choices are looked up."""
    found = 0
    for node in nodes(schema):
        choices = [*parts_of(node.get("enum")), node.get("const")]
        found += sum(size(one)[0] for one in choices if isinstance(one, (dict, list)))
        found += len(parts_of(node.get("patternProperties")))
    return found


def size(value: Any) -> tuple[int, int]:
    """Values, and characters, in a plain value; keys count as both."""
    left, parts, characters = [value], 0, 0
    while left:
        parts += 1
        if isinstance(item := left.pop(), str):
            characters += len(item)
        else:
            left += parts_of(item)
    return parts, characters
