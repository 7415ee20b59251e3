"""Parameters that are given as a JSON Schema, which may come from an untrusted MCP server.

The schema is kept unchanged and validated with jsonschema-rs. Its size and the cost of checking a value are bounded,
its patterns run in linear time, and its references are never fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from surehand.core.argument_errors import coerce_arguments, explain_schema_errors
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.null_arguments import MAX_NULL_ROUNDS, without_null_properties
from surehand.core.schema import JSON
from surehand.core.strict_json import has_at_most_parts, parse_json, validate_json_value

_REF_KEYWORDS = frozenset({"$ref", "$dynamicRef"})
_SAME_VALUE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas apply to the same value as the schema that contains them."""
_SKIPPED_KEYWORDS = frozenset({"const", "enum", "default", "examples", "$defs", "definitions", *_SAME_VALUE_KEYWORDS})
"""Keywords whose schemas do not apply to a part of the value."""
_STRUCTURE_KEYWORDS = frozenset(
    {"type", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"required", "minProperties", "maxProperties", "dependentRequired", "const", "enum"}
    | _REF_KEYWORDS
    | _SAME_VALUE_KEYWORDS
)
"""Keywords that say something about an object."""
_ANNOTATION_KEYWORDS = frozenset({"title", "description", "default", "examples", "deprecated", "definitions"})
MAX_VALUES_FOR_ALL_ERRORS = 1_000
"""Arguments with more parts are reported with their first error only."""


def is_json_schema(source: Mapping[str, Any]) -> bool:
    """Whether a mapping is meant as a JSON Schema: it has a keyword about objects, or nothing else than annotations."""
    if not source.keys().isdisjoint(_STRUCTURE_KEYWORDS):
        return True
    return all(str(name).startswith(("$", "x-")) or name in _ANNOTATION_KEYWORDS for name in source)


def schema_cost(schema: Any) -> float:
    """The most schemas that apply along one path through a value; a schema that refers to itself counts once.

    A small schema can be very expensive: thirty definitions that each refer twice to the next apply 2**30 schemas.
    """
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
            self._costs[id(schema)] = 1.0  # found here again while it is being computed: a circular reference
            # Schemas of the same value all apply; of its parts, the most expensive one bounds a path.
            same_value = sum(map(self.cost_of, self._schemas_of_same_value(schema)))
            largest_part = max(map(self.cost_of, _schemas_of_parts(schema)), default=0.0)
            self._costs[id(schema)] = 1.0 + same_value + largest_part
        return self._costs[id(schema)]

    def _schemas_of_same_value(self, schema: dict[str, Any]) -> Iterator[Any]:
        yield from (self._resolve_ref(schema[name]) for name in schema.keys() & _REF_KEYWORDS)
        for name in schema.keys() & _SAME_VALUE_KEYWORDS:
            yield from _iter_schemas(schema[name])

    def _resolve_ref(self, ref: Any) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        target = self._root
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")  # the escapes of a JSON Pointer
            if isinstance(target, list) and name.isdecimal():
                target = target[int(name)] if int(name) < len(target) else None
            else:
                target = target.get(name) if isinstance(target, dict) else None
        return target


def _schemas_of_parts(schema: dict[str, Any]) -> Iterator[Any]:
    """Schemas that apply to parts of the value: its properties and items."""
    for name, value in schema.items():
        if name not in _SKIPPED_KEYWORDS:
            yield from _iter_schemas(value)


def _iter_schemas(value: Any) -> Iterator[Any]:
    """The schemas in the value of a keyword: one schema, a list of schemas, or schemas by name."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield value
        yield from (inner for inner in value.values() if isinstance(inner, dict))


class RawParameters:
    """Parameters given as a JSON Schema, which is kept unchanged and validated with jsonschema-rs."""

    MAX_SCHEMA_BYTES = 262_144
    MAX_SCHEMA_DEPTH = 64
    MAX_SCHEMA_COST = 1 << 22

    def __init__(self, schema: Mapping[str, JSON], *, where: str = "") -> None:
        self._source_schema = dict(schema)
        self._enforced_schema = self._source_schema
        self._where = where
        self._validator: Any = None
        self._schema_cost = 0.0
        """The `schema_cost`, once the schema is compiled."""

    @property
    def schema(self) -> dict[str, JSON]:
        return self._source_schema or {"type": "object", "properties": {}}

    def compile(self) -> None:
        if self._validator is not None:
            return
        import jsonschema_rs as js  # imported on first use: tools from Python functions do not need it

        self._validate_schema_size()
        try:
            self._validator = js.validator_for(
                self._enforced_schema,
                retriever=_refuse_retrieval,
                # The schema may be hostile: this engine matches in linear time, one that backtracks does not.
                pattern_options=js.RegexOptions(),
            )
        except Exception as error:
            raise self._definition_error(f"The JSON Schema cannot be used: {_schema_mistake(error)}.") from error

    @property
    def cost(self) -> float:
        """The `schema_cost` of the compiled schema."""
        return self._schema_cost

    @property
    def argument_names(self) -> set[str]:
        """The names of the validated arguments."""
        return set(self._source_schema.get("properties", {}))

    def restrict_names(self, required: set[str], allowed: set[str]) -> None:
        """Reject arguments that the handler's signature cannot take, even if the schema allows them."""
        names_schema = {"required": sorted(required), "propertyNames": {"enum": sorted(allowed)}}
        all_of = [*self._source_schema.get("allOf", ()), names_schema]
        self._enforced_schema = {**self._source_schema, "allOf": all_of}
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
                "The JSON Schema refers to its parts so often that validating a value could take hours."
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
        remaining: dict[str, Any] | None = dict(values)
        errors: list[Any] = []
        for _ in range(MAX_NULL_ROUNDS):
            if remaining is None:
                break
            if self._is_valid(remaining):
                return remaining
            coerced = coerce_arguments(remaining, self.schema)
            if coerced != remaining and self._is_valid(coerced):
                return coerced
            errors = list(self._find_errors(remaining))
            null_paths = [error.instance_path for error in errors if error.instance is None]
            remaining = without_null_properties(remaining, null_paths, self.schema)
        raise explain_schema_errors(errors, self.schema)

    def accepts(self, values: Mapping[str, Any]) -> bool:
        """Whether arguments are valid exactly as they are: much cheaper than to explain what is wrong with them."""
        self.compile()
        validate_json_value(values)
        return self._is_valid(dict(values))

    def _find_errors(self, values: dict[str, Any]) -> Iterable[Any]:
        """The validation errors. For a large value only the first: `iter_errors` builds all of them at once."""
        if has_at_most_parts(MAX_VALUES_FOR_ALL_ERRORS, values):
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
        except ValueError as error:  # jsonschema-rs cannot convert the value, for example a Python object
            raise InvalidArguments(f"The arguments are not plain JSON: {error}") from None


def _schema_mistake(error: Exception) -> str:
    """The first line of what is wrong with a schema, after the place in it: `properties.city.type: ...`."""
    place = ".".join(map(str, getattr(error, "instance_path", ())))
    problem = str(error).splitlines()[0].rstrip(".")
    return f"{place}: {problem}" if place else problem


def _refuse_retrieval(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _nesting_depth(schema: Any) -> int:
    """The number of levels, counted without recursion: the schema may be deeper than Python's stack."""
    level = [schema]
    depth = 0
    while level:
        depth += 1
        next_level: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                next_level.extend(value.values())
            elif isinstance(value, list):
                next_level.extend(value)
        level = next_level
    return depth
