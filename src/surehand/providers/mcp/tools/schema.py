"""JSON Schemas that a server sent: bounded, compiled without trust, and cleaned for models to read.

Tool parameters, output schemas and elicitation forms use it. Nothing is ever fetched for a schema.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self

from surehand.core.argument_errors import short_repr
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.raw_schema import RawParameters
from surehand.core.sanitize import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    clean_line,
    clean_text,
    has_hidden_characters,
    has_smuggling_characters,
)
from surehand.core.strict_json import validate_json_value
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BYTES
from surehand.providers.mcp.tools.schema_walk import (
    NAME_MAP_KEYWORDS,
    count_comparisons,
    find_external_reference,
    iter_patterns,
    iter_strings,
    measure_json,
    remove_patterns,
)

log = logging.getLogger("surehand")

ANY_OBJECT_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema that accepts any object."""
MAX_PATTERNS = 500
MAX_COMPILED_PATTERN_BYTES = 100_000
"""Regular expressions of one schema, and the compiled size of each. 100 kB compile in about a millisecond."""
MAX_PATTERNS_PER_SERVER = 5_000
"""Regular expressions of all schemas under one `pattern_budget`."""
MAX_COMPARISONS = 100_000_000
MAX_PATTERN_CHARACTERS = 200_000
"""Comparisons, and characters times patterns, of validating one value: about a second in the worst case."""

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


_patterns_left: ContextVar[list[int] | None] = ContextVar("_patterns_left", default=None)
"""The rest of the current budget, in a list of one item that nested contexts share."""


@contextmanager
def pattern_budget(max_patterns: int = MAX_PATTERNS_PER_SERVER) -> Iterator[None]:
    """Limit the patterns of all schemas of one server. Schemas beyond the limit accept any value."""
    token = _patterns_left.set([max_patterns])
    try:
        yield
    finally:
        _patterns_left.reset(token)


class UnusableDefinition(Exception):
    """A definition of a server cannot be used. The message says why."""


class ServerSchema(RawParameters):
    """Parameters from a server. A schema that cannot be compiled, or is too costly to check, accepts any value."""

    def __init__(self, schema: Mapping[str, Any], *, where: str = "", validate_formats: bool | None = None) -> None:
        super().__init__(schema, where=where)
        self._validate_formats = validate_formats
        self._is_bounded = False
        self._has_warned = False
        self._comparisons_per_value = 0
        self._pattern_count = 0

    def check_bounds(self) -> Self:
        """Return self. Raises `UnusableDefinition` if it is too large, deep or costly, or refers to a URL."""
        if self._is_bounded:
            return self
        try:
            self._validate_schema_size()
        except DefinitionError as error:
            raise UnusableDefinition(error.problem) from None
        reference = find_external_reference(self._source_schema)
        if reference:
            raise UnusableDefinition(f"The JSON Schema refers to {short_repr(reference)}, and nothing is fetched.")
        self._is_bounded = True
        return self

    def rewrite_prose(self, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Self:
        """Replace titles and descriptions. The rewritten schema must accept the same values."""
        self._source_schema = self._enforced_schema = rewrite(self._source_schema)
        self._cost = None
        return self

    @property
    def schema(self) -> dict[str, Any]:
        self.compile()
        return super().schema

    @property
    def is_enforced(self) -> bool:
        """Whether values are checked at all."""
        self.compile()
        return not isinstance(self._validator, _AcceptAllValidator)

    def compile(self) -> None:
        if self._validator is not None:
            return
        try:
            self.check_bounds()
            self._validator = self._build_validator()
        except Exception as error:  # noqa: BLE001 - any failure of an untrusted schema leaves the tool usable
            log.warning(
                "%s: its values are not validated, because its schema failed: %s", self._where, _first_line(error)
            )
            self._validator = _AcceptAllValidator()
            # A model API refuses the whole request if one tool has a broken schema.
            if not self._is_valid_without_patterns():
                self._source_schema = dict(ANY_OBJECT_SCHEMA)

    def _build_validator(self) -> Any:
        from jsonschema_rs import RegexOptions

        self._pattern_count = len(set(iter_patterns(self._source_schema)))
        if self._pattern_count > MAX_PATTERNS:
            raise ValueError(f"{self._pattern_count} patterns, at most {MAX_PATTERNS}")
        _spend_patterns(self._pattern_count)
        if self.cost.unknown_reference:
            raise ValueError(self.cost.unknown_reference)
        self._comparisons_per_value = int(self.cost.schemas_per_part) + 10 * count_comparisons(self._source_schema)
        # The schema is untrusted: its patterns must run in linear time, and compile to a bounded size.
        options = RegexOptions(size_limit=MAX_COMPILED_PATTERN_BYTES)
        return _create_validator(self._source_schema, pattern_options=options, validate_formats=self._validate_formats)

    def _is_valid_without_patterns(self) -> bool:
        """Whether only a pattern is at fault. Patterns with look-around are common, and models can read them."""
        try:
            self.check_bounds()
            _create_validator(remove_patterns(self._source_schema))
        except Exception:  # noqa: BLE001 - see compile
            return False
        return True

    def _validate_costly(self, values: dict[str, Any]) -> dict[str, Any]:
        # What takes too long to validate is left to the server.
        if not self._is_valid(values):
            raise InvalidArguments("The arguments do not match the schema, and are too large to say where. Send less.")
        return values

    def _is_valid(self, values: Any) -> bool:
        return not self._is_affordable(values) or super()._is_valid(values)

    def find_problem(self, value: Any) -> str | None:
        """The first problem of a value, on one line; None if it is valid, or too large to be checked in time."""
        self.compile()
        try:
            validate_json_value(value)
            return None if self._is_valid(value) else self._first_problem(value)
        except InvalidArguments as error:
            return _first_line(error)

    def is_surely_valid(self, value: Any) -> bool:
        """Whether a small value of plain JSON is valid. False may also mean unknown: then use `find_problem`."""
        if self._validator is None:
            self.compile()
        # A direct result has at most so many bytes, and therefore at most so many values and characters.
        if self.cost.is_recursive or MAX_DIRECT_BYTES * self._comparisons_per_value > MAX_COMPARISONS:
            return False
        if MAX_DIRECT_BYTES * self._pattern_count > MAX_PATTERN_CHARACTERS:
            return False
        try:
            return bool(self._validator.is_valid(value))
        except ValueError:  # jsonschema-rs cannot convert a number with very many digits
            return False

    def _first_problem(self, value: Any) -> str:
        from jsonschema_rs import ValidationError

        if not self.cost.can_explain(value):
            return "it does not match the schema, and is too large to say where"
        try:
            self._validator.validate(value)
        except ValidationError as error:
            path = clean_line(".".join(map(str, error.instance_path)))
            prefix = f"`{path}`: " if path else ""
            return f"{prefix}{_shorten(error.message)}"
        return ""

    def _is_affordable(self, value: Any) -> bool:
        values, characters = measure_json(value)
        is_affordable = (
            values * self._comparisons_per_value <= MAX_COMPARISONS
            and characters * self._pattern_count <= MAX_PATTERN_CHARACTERS
            and (not self.cost.is_recursive or self.cost.can_validate(value))
        )
        if not is_affordable and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: a value was not validated: it holds %d values, too many for its schema", self._where, values
            )
        return is_affordable


def _spend_patterns(count: int) -> None:
    left = _patterns_left.get()
    if count and left is not None:
        left[0] -= count
        if left[0] < 0:
            raise ValueError(f"the server's schemas have more than {MAX_PATTERNS_PER_SERVER:,} patterns altogether")


class _AcceptAllValidator:
    def is_valid(self, value: Any) -> bool:
        return True

    def validate(self, value: Any) -> None:
        """Accept the value."""


def _create_validator(schema: dict[str, Any], **options: Any) -> Any:
    """Compile a schema. One without a known dialect is tried as draft 7 if it is not valid in the newest."""
    from jsonschema_rs import validator_for

    try:
        return validator_for(schema, retriever=_refuse_retrieval, **options)
    except ValueError:
        if str(schema.get("$schema", "")).startswith(("http://json-schema.org/draft-", "https://json-schema.org/")):
            raise
        with suppress(ValueError):
            return validator_for({**schema, "$schema": _DRAFT_7}, retriever=_refuse_retrieval, **options)
        raise


def _refuse_retrieval(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _first_line(error: Exception) -> str:
    return _shorten(str(error).partition("\n")[0])


def _shorten(text: str, max_length: int = 240) -> str:
    """The start and the end of a text, on one line: a message names its problem after a value that may be long."""
    if len(text) > max_length:
        text = f"{text[: max_length - 110]}...{text[-100:]}"
    return clean_line(text, max_length)


_VERBATIM_KEYWORDS = frozenset({
    "enum", "const", "default", "examples", "pattern", "required", "dependentRequired", "type", "format",
    "$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    "contentEncoding", "contentMediaType", "propertyOrdering",
})  # fmt: skip
"""Keywords whose values both sides rely on: they are kept or refused, but never changed."""


def to_object_schema(schema: Any, where: str) -> dict[str, Any]:
    """The schema as one of an object with properties, which model APIs require.

    A schema that cannot describe an object is replaced by one that accepts any object.
    """
    kind = schema.get("type") if isinstance(schema, Mapping) else "no schema"
    if kind == "object":
        return dict(schema) if "properties" in schema else {**schema, "properties": {}}
    if kind is None or (isinstance(kind, list) and "object" in kind):
        log.warning("%s: its input schema has the type %s, and is treated as an object schema", where, short_repr(kind))
        return {"properties": {}, **schema, "type": "object"}
    log.warning(
        "%s: its input schema does not describe an object: %s. Any arguments are accepted", where, short_repr(schema)
    )
    return dict(ANY_OBJECT_SCHEMA)


def clean_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with cleaned texts. Raises `UnusableDefinition` for hidden characters in names or values.

    Call `check_bounds` before: this recurses, and relies on the bounded depth.
    """
    cleaned: dict[str, Any] = _clean_node(schema)
    properties = cleaned.get("properties")
    if isinstance(properties, dict):
        cleaned["properties"] = {name: _expand_boolean_schema(value) for name, value in properties.items()}
    return cleaned


def _expand_boolean_schema(schema: Any) -> Any:
    """Spell out the schemas `true` and `false`, which some model APIs do not accept."""
    if schema is True:
        return {}
    return {"not": {}} if schema is False else schema


def _clean_node(node: Any, *, is_name_map: bool = False) -> Any:
    if isinstance(node, str):
        return clean_text(node)
    if isinstance(node, list):
        return [_clean_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name in node:
        if has_hidden_characters(name):
            raise UnusableDefinition(f"The name {name[:80]!a} in its schema has characters that cannot be seen.")
    return {key: _clean_value(key, value, is_name_map=is_name_map) for key, value in node.items()}


def _clean_value(key: str, value: Any, *, is_name_map: bool) -> Any:
    if is_name_map:
        return _clean_node(value)
    if key == "title" and isinstance(value, str):
        return clean_line(value, MAX_TITLE_CHARS)
    if key == "description" and isinstance(value, str):
        return clean_text(value, MAX_TEXT_CHARS)
    if key in _VERBATIM_KEYWORDS:
        for text in iter_strings(value):
            if has_smuggling_characters(text):
                raise UnusableDefinition(f"A value under {key!r} in its schema hides something: {text[:80]!a}.")
        return value
    return _clean_node(value, is_name_map=key in NAME_MAP_KEYWORDS)
