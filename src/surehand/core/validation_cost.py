"""What it costs to validate a value: how many schemas apply to its parts. A small schema can be very expensive.

Of `anyOf: [A, A]` in a schema A that contains itself, a value of sixty levels would need 2**60 comparisons. They are
counted before the validator runs, because nothing can stop it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from surehand.core.schema_references import META_SCHEMA, REFERENCE_KEYWORDS, SchemaReferences, UnknownReference
from surehand.core.strict_json import has_at_most_parts

MAX_COMPARISONS = 2_000_000
"""Comparisons of a schema with a part of a value for which the validator takes about a tenth of a second."""
MAX_EXPLAINED_COMPARISONS = 20_000
"""With more, a value is only accepted or refused: to explain what is wrong takes a hundred times as long."""
_MAX_COUNTED_PAIRS = 200_000
"""Pairs of a schema and a part of a value that are looked at to count the comparisons."""
_MAX_SCHEMA_STEPS = 40_000
"""Steps from schema to schema that are taken to find all that apply to the same value."""
_MAX_VISITS_ON_A_PATH = 2
"""How often the validator may come to a schema that leads back to itself before it ends the circle."""
_UNEVALUATED_FACTOR = 3
"""The validator applies a schema again to find out what it has evaluated."""
_META_SCHEMA_COST = 100
"""Schemas that apply to each part of a schema."""
_SAME_VALUE_KEYWORDS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_SAME_VALUE_MAP_KEYWORDS = ("dependentSchemas", "dependencies")
_PART_KEYWORDS = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
)
_PART_MAP_KEYWORDS = ("properties", "patternProperties")
_APPLICATORS = frozenset(
    {
        *(*REFERENCE_KEYWORDS, *_SAME_VALUE_KEYWORDS, *_SAME_VALUE_MAP_KEYWORDS),
        *(*_PART_KEYWORDS, *_PART_MAP_KEYWORDS),
    }
)
"""Keywords that apply other schemas."""


class ValidationCost:
    """The cost of comparing values with one schema, which may be hostile."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._applying = _ApplyingSchemas(schema)
        self.unknown_reference = ""
        """Why it is not known where a reference leads; empty if all are known."""
        self.schemas_per_part = inf
        """The most schemas that apply along one path through a value; a schema that contains itself counts once."""
        self._path_costs: dict[int, float] = {}
        self._part_costs: dict[int, float] = {}
        self._has_alternatives = False
        """Whether the first error may be about alternatives: it holds what is wrong with each of them."""
        self.is_recursive = False
        """Whether a schema contains itself, so that the cost depends on how deep a value is."""
        try:
            self.schemas_per_part = self._path_cost(schema)
        except UnknownReference as error:
            self.unknown_reference = str(error)
        except (RecursionError, _TooManyStepsError):
            pass

    def can_explain(self, value: Any) -> bool:
        """Whether a value is cheap enough to say what is wrong with it first."""
        return self.can_list_errors(value) or (not self._has_alternatives and self.can_validate(value))

    def can_list_errors(self, value: Any) -> bool:
        """Whether a value is cheap enough to say everything that is wrong with it."""
        return self._is_at_most(MAX_EXPLAINED_COMPARISONS, value)

    def can_validate(self, value: Any) -> bool:
        """Whether a value can be validated without stopping the event loop."""
        return self._is_at_most(MAX_COMPARISONS, value)

    def _is_at_most(self, max_comparisons: int, value: Any) -> bool:
        # The bound is much too high for most values, and free; it holds where no schema contains itself.
        if not self.is_recursive and has_at_most_parts(int(max_comparisons / self.schemas_per_part), value):
            return True
        try:
            return _Comparisons(self._applying).count(self._schema, value) <= max_comparisons
        except (RecursionError, _TooManyStepsError, UnknownReference):
            return False

    def _path_cost(self, schema: Any) -> float:
        if not isinstance(schema, Mapping):
            return 0.0
        if schema is not META_SCHEMA and schema.keys().isdisjoint(_APPLICATORS):  # most are such
            return 1.0
        if id(schema) in self._path_costs:
            self.is_recursive |= self._path_costs[id(schema)] == 0.0
            return max(self._path_costs[id(schema)], 1.0)
        self._path_costs[id(schema)] = 0.0  # found here again while it is being computed: a circular reference
        # Schemas of the same value all apply; of its parts, the most expensive one bounds a path.
        cost = 0.0
        for each, times in self._applying.to_value_of(schema):
            self._has_alternatives |= "anyOf" in each or "oneOf" in each
            if id(each) not in self._part_costs:
                self._part_costs[id(each)] = max(map(self._path_cost, _schemas_of_parts(each)), default=0.0)
            cost += times * (1.0 + self._part_costs[id(each)])
        self._path_costs[id(schema)] = cost
        return cost


class _TooManyStepsError(Exception):
    pass


class _ApplyingSchemas:
    """All schemas that apply to the same value as a given one, with how often each of them does."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._references = SchemaReferences(root)
        self._known: dict[int, dict[int, tuple[Any, float]]] = {}
        self._next: dict[int, list[Mapping[str, Any]]] = {}
        """The schemas that each schema applies to the same value itself."""
        self._steps = 0

    def to_value_of(self, schema: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], float]]:
        """The schema itself, and all that apply with it."""
        found, _ = self._find(schema, {}, {})
        return list(found.values())

    def _find(
        self, schema: Mapping[str, Any], depths: dict[int, int], visits: dict[int, int]
    ) -> tuple[dict[int, tuple[Any, float]], float]:
        """The schemas by identity, and the first schema of the path, by depth, that was met again."""
        key = id(schema)
        if key in self._known:
            return self._known[key], inf
        if schema.keys().isdisjoint(_APPLICATORS):
            self._known[key] = {key: (schema, 1.0)}
            return self._known[key], inf
        is_first = key not in depths
        if visits.get(key, 0) >= _MAX_VISITS_ON_A_PATH:
            return {key: (schema, 1.0)}, depths[key]
        if is_first:
            depths[key] = len(depths)
        visits[key] = visits.get(key, 0) + 1
        found: dict[int, tuple[Any, float]] = {key: (schema, 1.0)}
        met_again: float = inf if is_first else depths[key]
        factor = _UNEVALUATED_FACTOR if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        for child in self._same_value_schemas(schema):
            inner, inner_met_again = self._find(child, depths, visits)
            met_again = min(met_again, inner_met_again)
            self._count_steps(len(inner))
            for inner_key, (each, times) in inner.items():
                _, before = found.get(inner_key, (each, 0.0))
                found[inner_key] = (each, before + factor * times)
        visits[key] -= 1
        if is_first:
            depth = depths.pop(key)
            if met_again >= depth:  # what was found does not depend on how this schema was reached
                self._known[key] = found
                met_again = inf
        return found, met_again

    def _count_steps(self, count: int) -> None:
        self._steps += count
        if self._steps > _MAX_SCHEMA_STEPS:
            raise _TooManyStepsError

    def _same_value_schemas(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if id(schema) not in self._next:
            written: list[Any] = self._references.targets(schema)
            for keyword in _SAME_VALUE_KEYWORDS:
                part = schema.get(keyword)
                written += part if isinstance(part, list) else [part]
            for keyword in _SAME_VALUE_MAP_KEYWORDS:
                dependent = schema.get(keyword)
                written += dependent.values() if isinstance(dependent, Mapping) else ()
            self._count_steps(len(written))
            self._next[id(schema)] = [each for each in written if isinstance(each, Mapping)]
        return self._next[id(schema)]


class _Comparisons:
    """Counts the comparisons of a value with a schema, if no alternative ends early."""

    def __init__(self, applying: _ApplyingSchemas) -> None:
        self._applying = applying
        self._counts: dict[tuple[int, int | None], float] = {}
        self._pairs = 0

    def count(self, schema: Any, value: Any) -> float:
        """The comparisons with all parts of a value; each pair of schema and part is looked at once."""
        if not isinstance(schema, Mapping):
            return 1.0
        if schema is not META_SCHEMA and schema.keys().isdisjoint(_APPLICATORS):
            return 1.0
        is_container = isinstance(value, (dict, list, tuple))
        key = (id(schema), id(value) if is_container else None)
        if key not in self._counts:
            total = 0.0
            for each, times in self._applying.to_value_of(schema):
                self._count_pair()
                total += times * (1.0 + (self._count_parts(each, value) if is_container else 0.0))
            self._counts[key] = total
        return self._counts[key]

    def _count_parts(self, schema: Mapping[str, Any], value: Any) -> float:
        if schema is META_SCHEMA:
            return _META_SCHEMA_COST * (1.0 + sum(self.count(META_SCHEMA, part) for part in _children(value)))
        count = 0.0
        for part_schema, part in _parts(schema, value):
            self._count_pair()
            count += self.count(part_schema, part)
        return count

    def _count_pair(self) -> None:
        self._pairs += 1
        if self._pairs > _MAX_COUNTED_PAIRS:
            raise _TooManyStepsError


def _schemas_of_parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Schemas that apply to parts of the value: its properties and items."""
    if schema is META_SCHEMA:
        yield META_SCHEMA
    for keyword in _PART_KEYWORDS:
        part = schema.get(keyword)
        yield from part if isinstance(part, list) else [part]
    for keyword in _PART_MAP_KEYWORDS:
        parts = schema.get(keyword)
        yield from parts.values() if isinstance(parts, Mapping) else ()


def _parts(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The schemas of a value's parts, each with its part."""
    if isinstance(value, dict):
        others = [schema[name] for name in ("additionalProperties", "unevaluatedProperties") if name in schema]
        patterns = schema.get("patternProperties")
        others += patterns.values() if isinstance(patterns, Mapping) else ()
        names = schema.get("propertyNames")
        properties = schema.get("properties")
        for name, part in value.items():
            if isinstance(properties, Mapping) and name in properties:
                yield properties[name], part
            yield from ((each, part) for each in others)
            yield names, name
        return
    others = [schema[name] for name in ("additionalItems", "unevaluatedItems", "contains") if name in schema]
    for keyword in ("prefixItems", "items"):
        written = schema.get(keyword)
        if isinstance(written, list):
            yield from zip(written, value, strict=False)
        else:
            others.append(written)
    for part in value:
        yield from ((each, part) for each in others)


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)
