"""What it costs to validate a value: how many schemas apply to its parts. A small schema can be very expensive.

Of `anyOf: [A, A]` in a schema A that contains itself, a value of sixty levels would need 2**60 comparisons. They are
counted before the validator runs, because nothing can stop it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from surehand.core.raw_schema import RawParameters
from surehand.core.strict_json import has_at_most_parts

MAX_SCHEMA_COST = 300
"""Schemas that may apply to one part of a value. Of a thousand public documents, none needs more than thirty."""
MAX_COMPARISONS = 2_000_000
"""Comparisons of a schema with a part of a value for which the validator takes about a tenth of a second."""
MAX_EXPLAINED_COMPARISONS = 20_000
"""With more, a value is only accepted or refused: to explain what is wrong takes a hundred times as long."""
_MAX_PAIRS = 100_000
"""Pairs of a schema and a part of a value that are looked at to count the comparisons."""
_SAME_VALUE_KEYWORDS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")


class ValidationCost:
    """Counts the comparisons for values of one compiled schema, whose references all lead to its `$defs`."""

    def __init__(self, parameters: RawParameters) -> None:
        self._schema = parameters.schema
        self._cost = max(parameters.cost, 1.0)
        self._definitions: Mapping[str, Any] = self._schema.get("$defs", {})

    @cached_property
    def _is_recursive(self) -> bool:
        return _has_cycle({name: set(_find_refs(each)) for name, each in self._definitions.items()})

    @property
    def is_acceptable(self) -> bool:
        """Whether few enough schemas apply to each part of a value."""
        return self._cost <= MAX_SCHEMA_COST

    def can_explain(self, value: Any) -> bool:
        """Whether a value is cheap enough to say what is wrong with it."""
        return self._is_at_most(MAX_EXPLAINED_COMPARISONS, value)

    def can_validate(self, value: Any) -> bool:
        """Whether a value can be validated without stopping the event loop."""
        return self._is_at_most(MAX_COMPARISONS, value)

    def _is_at_most(self, max_comparisons: int, value: Any) -> bool:
        # The bound is much too high for most values, and free; it holds where no schema contains itself.
        if not self._is_recursive and has_at_most_parts(int(max_comparisons / self._cost), value):
            return True
        try:
            return _Comparisons(self._definitions).count(self._schema, value) <= max_comparisons
        except (RecursionError, _TooManyPairsError):
            return False


class _TooManyPairsError(Exception):
    pass


class _Comparisons:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._counts: dict[tuple[int, int | None], int] = {}

    def count(self, schema: Any, value: Any) -> int:
        """The comparisons if no alternative ends early; each pair of schema and part is looked at once."""
        if not isinstance(schema, Mapping):
            return 1
        is_container = isinstance(value, (dict, list))
        key = (id(schema), id(value) if is_container else None)
        if key not in self._counts:
            if len(self._counts) == _MAX_PAIRS:
                raise _TooManyPairsError
            self._counts[key] = 1  # found here again while it is being counted: a reference to itself
            total = 1 + sum(self.count(each, value) for each in self._same_value_schemas(schema))
            if is_container:
                total += sum(self.count(part_schema, part) for part_schema, part in _parts(schema, value))
            self._counts[key] = total
        return self._counts[key]

    def _same_value_schemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield self._definitions.get(ref.rpartition("/")[2])
        for keyword in _SAME_VALUE_KEYWORDS:
            part = schema.get(keyword)
            yield from part if isinstance(part, list) else [part] if part is not None else ()
        dependent = schema.get("dependentSchemas")
        yield from dependent.values() if isinstance(dependent, dict) else ()


def _parts(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The schemas of a value's parts, each with its part."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        for name, part in value.items():
            if name in properties:
                yield properties[name], part
            yield from ((each, part) for each in patterns.values())
            yield schema.get("additionalProperties"), part
            yield schema.get("propertyNames"), name
        return
    first = schema.get("prefixItems", [])
    yield from zip(first, value, strict=False)
    for part in value:
        yield schema.get("items"), part
        if "contains" in schema:
            yield schema["contains"], part


def _find_refs(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            ref = value.get("$ref")
            if isinstance(ref, str):
                yield ref.rpartition("/")[2]
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _has_cycle(graph: Mapping[str, Iterable[str]]) -> bool:
    """Whether any name can be reached from itself: if not, removing those without a way on leaves none in the end."""
    remaining = {name: {each for each in following if each in graph} for name, following in graph.items()}
    while remaining:
        ends = [name for name, following in remaining.items() if not following & remaining.keys()]
        if not ends:
            return True
        for name in ends:
            del remaining[name]
    return False
