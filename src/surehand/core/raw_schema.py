"""Parameters given as a JSON Schema: kept as they are, checked without trusting whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.schema import JSON
from surehand.core.strict_json import has_at_most_parts, parse_json, validate_json_value

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


class RawParameters:
    """Parameters given as a JSON Schema, kept as it is and checked with `jsonschema-rs`."""

    MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_COST = 262_144, 64, 1 << 22

    def __init__(self, schema: Mapping[str, JSON], *, where: str = "") -> None:
        self._source_schema, self._where = dict(schema), where
        self._enforced_schema = self._source_schema
        self._validator: Any = None
        self._schema_cost = 0.0
        """How many schemas one path through a value can meet, once that is worked out."""

    @property
    def schema(self) -> dict[str, JSON]:
        return self._source_schema or {"type": "object", "properties": {}}

    def compile(self) -> None:
        if self._validator is not None:
            return
        import jsonschema_rs as js

        self._validate_schema_size()
        try:
            self._validator = js.validator_for(
                self._enforced_schema,
                retriever=_refuse_retrieval,
                # A schema may come from a stranger: patterns must run in linear time.
                pattern_options=js.RegexOptions(),
            )
        except Exception as error:
            raise self._definition_error(f"The JSON Schema cannot be used: {str(error).splitlines()[0]}") from error

    @property
    def argument_names(self) -> set[str]:
        """What the checked values are called."""
        return set(self._source_schema.get("properties", {}))

    def restrict_names(self, required: set[str], allowed: set[str]) -> None:
        """Refuse what a handler that takes its arguments by name cannot take, whatever the schema leaves open."""
        limits = {"required": sorted(required), "propertyNames": {"enum": sorted(allowed)}}
        self._enforced_schema = {**self._source_schema, "allOf": [*self._source_schema.get("allOf", ()), limits]}
        self._validator = None
        self.compile()

    def _validate_schema_size(self) -> None:
        import json

        try:
            validate_json_value(self._source_schema)
            size = len(json.dumps(self._source_schema))
        except (InvalidArguments, TypeError, ValueError, RecursionError) as error:
            raise self._definition_error(f"The JSON Schema is not plain JSON: {error}") from error
        if size > self.MAX_SCHEMA_BYTES or _nesting_depth(self._source_schema) > self.MAX_SCHEMA_DEPTH:
            raise self._definition_error(
                f"The JSON Schema is too large: {size} bytes, at most {self.MAX_SCHEMA_BYTES} and 64 levels."
            )
        self._schema_cost = schema_cost(self._source_schema)
        if self._schema_cost > self.MAX_SCHEMA_COST:
            raise self._definition_error(
                "The JSON Schema refers to its parts so often that checking a value could take for ever."
            )

    def _definition_error(self, problem: str) -> DefinitionError:
        return DefinitionError(problem, fix="give a valid JSON Schema whose $refs are local.", where=self._where)

    def validate_json(self, text: str) -> dict[str, Any]:
        values = parse_json(text)
        if not isinstance(values, dict):
            raise InvalidArguments(f"The arguments must be a JSON object, not {type(values).__name__}.")
        return self.validate_mapping(values)

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._validator is None:
            self.compile()
        validate_json_value(values)
        values = dict(values)
        if self._is_valid(values):
            return values
        from surehand.core.argument_errors import coerce_arguments, explain_schema_errors

        coerced = coerce_arguments(values, self.schema)
        if coerced != values and self._is_valid(coerced):
            return coerced
        raise explain_schema_errors(self._find_errors(values), values, self.schema)

    def _find_errors(self, values: dict[str, Any]) -> Iterable[Any]:
        """All that is wrong with a value; with a large one only the first thing, since all of them are made at once."""
        if has_at_most_parts(1_000, values):
            return self._validator.iter_errors(values)  # type: ignore[no-any-return]
        import jsonschema_rs as js

        try:
            self._validator.validate(values)
        except js.ValidationError as error:
            return [error]
        return []

    def _is_valid(self, values: dict[str, Any]) -> bool:
        try:
            return bool(self._validator.is_valid(values))
        except ValueError as error:  # what jsonschema-rs cannot convert, such as a Python object
            raise InvalidArguments(f"The arguments are not plain JSON: {error}") from None


def _refuse_retrieval(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _nesting_depth(schema: Any) -> int:
    level, depth = [schema], 0
    while level:
        depth += 1
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
        ]
    return depth
