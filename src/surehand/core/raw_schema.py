"""Parameters that are given as a JSON Schema, which may come from an untrusted MCP server.

The schema is kept unchanged and validated with jsonschema-rs. Its size and the cost of checking a value are bounded,
its patterns run in linear time, and its references are never fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from surehand.core.argument_errors import coerce_arguments, explain_schema_errors
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.null_arguments import MAX_NULL_ROUNDS, without_null_properties
from surehand.core.schema import JSON
from surehand.core.strict_json import has_at_most_parts, parse_json, validate_json_value
from surehand.core.validation_cost import ValidationCost

_REF_KEYWORDS = frozenset({"$ref", "$dynamicRef"})
_SAME_VALUE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
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
        self._cost: ValidationCost | None = None

    @property
    def schema(self) -> dict[str, JSON]:
        return self._source_schema or {"type": "object", "properties": {}}

    def compile(self) -> None:
        if self._validator is not None:
            return
        import jsonschema_rs as js  # imported on first use: tools from Python functions do not need it

        self._validate_schema_size()
        try:
            validator = js.validator_for(
                self._enforced_schema,
                retriever=_refuse_retrieval,
                # The schema may be hostile: this engine matches in linear time, one that backtracks does not.
                pattern_options=js.RegexOptions(),
            )
        except Exception as error:
            raise self._definition_error(f"The JSON Schema cannot be used: {_schema_mistake(error)}.") from error
        if self.cost.unknown_reference:
            raise self._definition_error(f"The JSON Schema cannot be used: {self.cost.unknown_reference}.")
        self._validator = validator

    @property
    def cost(self) -> ValidationCost:
        """What it costs to validate a value."""
        if self._cost is None:
            self._cost = ValidationCost(self._source_schema)
        return self._cost

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
        if self.cost.schemas_per_part > self.MAX_SCHEMA_COST and not self.cost.unknown_reference:
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
        if not self.cost.can_explain(values):
            return self._validate_costly(dict(values))
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

    def _validate_costly(self, values: dict[str, Any]) -> dict[str, Any]:
        """Accept or refuse values as they are: to say what is wrong with them would stop the event loop."""
        if not self.cost.can_validate(values):
            raise InvalidArguments(
                "The arguments are so large, or so deeply nested, that comparing them with the schema takes too long."
                " Send less."
            )
        if not self._is_valid(values):
            raise InvalidArguments("The arguments do not match the schema, and are too large to say where. Send less.")
        return values

    def _find_errors(self, values: dict[str, Any]) -> Iterable[Any]:
        """The validation errors. For a large value only the first: `iter_errors` builds all of them at once."""
        if has_at_most_parts(MAX_VALUES_FOR_ALL_ERRORS, values) and self.cost.can_list_errors(values):
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
