"""Walks through a JSON Schema: what stands in it, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

NAME_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names."""
_VALUE_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")


def iter_objects(root: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a schema, even inside plain values: a `$ref` can make a schema of any of them."""
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
    """What a value holds, keys too."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return list(value) if isinstance(value, (list, tuple)) else []


def find_external_reference(schema: dict[str, Any]) -> str | None:
    """A reference to what is not in this schema."""
    ids = {one.partition("#")[0] for node in iter_objects(schema) if isinstance(one := node.get("$id"), str)}
    for node in iter_subschemas(schema):
        for ref in (node.get(key) for key in _REFERENCE_KEYWORDS):
            if isinstance(ref, str) and not ref.startswith("#") and ref.partition("#")[0] not in ids:
                return ref
    return None


def iter_subschemas(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every mapping that stands where a schema does: not those of names, and none inside plain values."""
    level: list[tuple[Any, bool]] = [(root, False)]
    while level:
        yield from (node for node, named in level if isinstance(node, dict) and not named)
        level = [inner for node, named in level for inner in _children_in_schema(node, named)]


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
        if isinstance(named := node.get("patternProperties"), dict):
            yield from named


def remove_patterns(node: Any) -> Any:
    """The same with no regular expressions; recurses, for schemas whose depth is known to be bounded."""
    if isinstance(node, list):
        return [remove_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "pattern" or not isinstance(value, str)}
    return {key: {} if key == "patternProperties" else remove_patterns(value) for key, value in kept.items()}


def count_comparisons(schema: Any) -> int:
    """With how many parts and patterns a value may be compared one after the other; plain choices are looked up."""
    found = 0
    for node in iter_objects(schema):
        choices = [*children_of(node.get("enum")), node.get("const")]
        found += sum(measure_json(one)[0] for one in choices if isinstance(one, (dict, list)))
        found += len(children_of(node.get("patternProperties")))
    return found


def replace_non_finite(value: Any) -> Any:
    """A plain value with null for every number that JSON does not have; the same one where there is none."""
    return value if is_finite(value) else _replace_non_finite(value)


def is_finite(value: Any) -> bool:
    """Whether a plain value has no number in it that JSON does not have."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
        elif isinstance(item, float) and not isfinite(item):
            return False
    return True


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_non_finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def measure_json(value: Any, limit: float = inf) -> tuple[int, int]:
    """Values, and characters, in a plain value, or the first `most` of either; keys count as both."""
    left, parts, characters = [value], 0, 0
    while left and parts < limit and characters < limit:
        parts += 1
        if isinstance(item := left.pop(), str):
            characters += len(item)
        elif isinstance(item, (dict, list, tuple)):
            left += children_of(item)
    return parts, characters
