"""How much work a JSON Schema can make: parts that are referred to again and again add up to no end."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

_REF_KEYWORDS = frozenset({"$ref", "$dynamicRef"})
_SAME_VALUE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas look at the very value that the schema itself looks at."""
_SKIPPED_KEYWORDS = frozenset({"const", "enum", "default", "examples", "$defs", "definitions", *_SAME_VALUE_KEYWORDS})


def schema_cost(schema: Any) -> float:
    """How many schemas one path through a value can meet; a schema that leads back to itself counts once."""
    try:
        return _CostCounter(schema).cost_of(schema)
    except RecursionError:
        return inf


class _CostCounter:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._costs: dict[int, float] = {}

    def cost_of(self, schema: Any) -> float:
        if not isinstance(schema, dict):
            return 0.0
        if id(schema) not in self._costs:
            self._costs[id(schema)] = 1.0  # while it is being worked out: this is where a circle closes
            here = sum(map(self.cost_of, self._schemas_of_same_value(schema)))
            self._costs[id(schema)] = 1.0 + here + max(map(self.cost_of, _schemas_of_parts(schema)), default=0.0)
        return self._costs[id(schema)]

    def _schemas_of_same_value(self, schema: dict[str, Any]) -> Iterator[Any]:
        yield from (self._resolve_ref(schema[name]) for name in schema.keys() & _REF_KEYWORDS)
        for name in schema.keys() & _SAME_VALUE_KEYWORDS:
            yield from _iter_schemas(schema[name])

    def _resolve_ref(self, ref: Any) -> Any:
        found = self._root
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found


def _schemas_of_parts(schema: dict[str, Any]) -> Iterator[Any]:
    """Schemas that look at parts of the value."""
    for name, value in schema.items():
        if name not in _SKIPPED_KEYWORDS:
            yield from _iter_schemas(value)


def _iter_schemas(value: Any) -> Iterator[Any]:
    """A schema, a list of them, or some by name."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield value
        yield from (inner for inner in value.values() if isinstance(inner, dict))
