"""Schema: a JSON Schema that a server sent, kept as it is and never trusted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self

from surehand.core.argument_errors import short_repr
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.raw_schema import RawParameters
from surehand.core.sanitize import MAX_TEXT_CHARS, MAX_TITLE_CHARS, clean_line, clean_text, has_hidden, has_smuggled
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

_VERBATIM_KEYWORDS = frozenset({
    "enum", "const", "default", "examples", "pattern", "required", "dependentRequired", "type", "format",
    "$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    "contentEncoding", "contentMediaType", "propertyOrdering",
})  # fmt: skip
"""Keywords whose values are part of what the two sides agreed on: refused or kept, never changed."""


def to_object_schema(schema: Any, where: str) -> dict[str, Any]:
    """The schema as one of an object with properties, which is what models' APIs want; what is none takes anything."""
    kind = schema.get("type") if isinstance(schema, Mapping) else "no schema"
    if kind == "object":
        return dict(schema) if "properties" in schema else {**schema, "properties": {}}
    if kind is None or (isinstance(kind, list) and "object" in kind):
        log.warning("%s: its input schema is of type %s; taken as an object's", where, short_repr(kind))
        return {"properties": {}, **schema, "type": "object"}
    log.warning("%s: its input schema is none of an object (%s); it takes anything", where, short_repr(schema))
    return dict(ANY_OBJECT_SCHEMA)


def clean_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its prose fit to be read; raises `Unusable` where names or values hide something.

    To be called on what `bound` let through: depth is bounded then.
    """
    made = _clean_node(schema)
    fields = made.get("properties")
    if isinstance(fields, dict):  # the short forms of "anything" and "nothing" are not known to everybody
        made["properties"] = {n: {} if f is True else {"not": {}} if f is False else f for n, f in fields.items()}
    return made  # type: ignore[no-any-return]  # a dict gives a dict


def _clean_node(node: Any, *, is_name_map: bool = False) -> Any:
    if isinstance(node, str):
        return clean_text(node)
    if isinstance(node, list):
        return [_clean_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name in node:
        if has_hidden(name):
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
            if has_smuggled(text):
                raise UnusableDefinition(f"A value under {key!r} in its schema hides something: {text[:80]!a}.")
        return value
    return _clean_node(value, is_name_map=key in NAME_MAP_KEYWORDS)


log = logging.getLogger("surehand")

ANY_OBJECT_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""What takes anything."""
MAX_PATTERNS, MAX_COMPILED_PATTERN_BYTES = 500, 100_000
"""A stranger's expressions may take a moment to compile, all together: one of 100 kB is ready in a millisecond."""
MAX_PATTERNS_PER_SERVER = 5_000
"""Expressions of all schemas that are made under one `allowance`."""
MAX_COMPARISONS, MAX_PATTERN_CHARACTERS = 100_000_000, 200_000
"""Comparisons, and characters times patterns, that checking one value may take: about a second at the very worst."""

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


_patterns_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)


@contextmanager
def pattern_budget(max_patterns: int = MAX_PATTERNS_PER_SERVER) -> Iterator[None]:
    """Bound what all schemas of one server may cost together; those that come too late check nothing."""
    token = _patterns_left.set([max_patterns])
    try:
        yield
    finally:
        _patterns_left.reset(token)


class UnusableDefinition(Exception):
    """What a server offers cannot be used; the text says why, in words for a log."""


class ServerSchema(RawParameters):
    """Checks what it can: where it cannot be compiled, or would take too long, anything is taken, with a warning."""

    def __init__(self, schema: Mapping[str, Any], *, where: str = "", validate_formats: bool | None = None) -> None:
        super().__init__(schema, where=where)
        self._validate_formats = validate_formats
        self._is_bounded = self._has_warned = False
        self._comparisons_per_value = self._pattern_count = 0

    def check_bounds(self) -> Self:
        """The same; raises `Unusable` for what is too large, too deep, entangled, or to be fetched from elsewhere."""
        if self._is_bounded:
            return self
        try:
            self._validate_schema_size()
        except DefinitionError as error:
            raise UnusableDefinition(error.problem) from None
        if away := find_external_reference(self._source_schema):
            raise UnusableDefinition(f"The JSON Schema refers to {short_repr(away)}, and nothing is fetched.")
        self._is_bounded = True
        return self

    def rewrite_prose(self, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Self:
        """The same with other prose: what it asks for stays, and so does what checking it costs."""
        self._source_schema = self._enforced_schema = rewrite(self._source_schema)
        return self

    @property
    def schema(self) -> dict[str, Any]:
        self.compile()
        return super().schema

    @property
    def is_enforced(self) -> bool:
        """Whether anything is checked at all."""
        self.compile()
        return not isinstance(self._validator, _AcceptAllValidator)

    def compile(self) -> None:
        if self._validator is not None:
            return
        try:
            self.check_bounds()
            self._validator = self._build_validator()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's schema brings about, the tool stays usable
            log.warning("%s: values are not checked against its schema: %s", self._where, _first_line(error))
            self._validator = _AcceptAllValidator()
            if not self._is_valid_without_patterns():  # a model's API refuses a whole request for one broken schema
                self._source_schema = dict(ANY_OBJECT_SCHEMA)

    def _build_validator(self) -> Any:
        from jsonschema_rs import RegexOptions

        self._pattern_count = len(set(iter_patterns(self._source_schema)))
        if self._pattern_count > MAX_PATTERNS:
            raise ValueError(f"{self._pattern_count} patterns, at most {MAX_PATTERNS}")
        _spend_patterns(self._pattern_count)
        self._comparisons_per_value = int(self._schema_cost) + 10 * count_comparisons(self._source_schema)
        # Patterns that run in linear time only, and whose size is bounded too: both are a stranger's.
        options = RegexOptions(size_limit=MAX_COMPILED_PATTERN_BYTES)
        return _create_validator(self._source_schema, pattern_options=options, validate_formats=self._validate_formats)

    def _is_valid_without_patterns(self) -> bool:
        """Whether only its patterns are at fault: those with look-around are common, and fine for a model to read."""
        try:
            self.check_bounds()
            _create_validator(remove_patterns(self._source_schema))
        except Exception:  # noqa: BLE001 - see compile
            return False
        return True

    def _is_valid(self, values: Any) -> bool:
        return not self._is_affordable(values) or super()._is_valid(values)

    def find_problem(self, value: Any) -> str | None:
        """What is wrong with a value, on one line; None if nothing is, or if that cannot be found out in time."""
        self.compile()
        try:
            validate_json_value(value)
            return None if self._is_valid(value) else self._first_problem(value)
        except InvalidArguments as error:
            return _first_line(error)

    def is_surely_valid(self, value: Any) -> bool:
        """Whether nothing is wrong with a value that is known to be plain JSON, and light; if not, ask `complaint`."""
        if self._validator is None:
            self.compile()
        if (
            MAX_DIRECT_BYTES * self._comparisons_per_value > MAX_COMPARISONS
            or MAX_DIRECT_BYTES * self._pattern_count > MAX_PATTERN_CHARACTERS
        ):
            return False
        try:
            return bool(self._validator.is_valid(value))
        except ValueError:  # a number of so many digits that the validator has none for it
            return False

    def _first_problem(self, value: Any) -> str:
        from jsonschema_rs import ValidationError

        try:
            self._validator.validate(value)
        except ValidationError as error:
            place = clean_line(".".join(map(str, error.instance_path)))
            return f"{f'`{place}`: ' if place else ''}{_shorten(error.message)}"
        return ""

    def _is_affordable(self, value: Any) -> bool:
        parts, characters = measure_json(value)
        good = (
            parts * self._comparisons_per_value <= MAX_COMPARISONS
            and characters * self._pattern_count <= MAX_PATTERN_CHARACTERS
        )
        if not good and not self._has_warned:
            self._has_warned = True
            log.warning("%s: %d values, too many to be checked against its schema", self._where, parts)
        return good


def _spend_patterns(count: int) -> None:
    if count and (left := _patterns_left.get()) is not None:
        left[0] -= count
        if left[0] < 0:
            raise ValueError("the server's schemas have too many patterns, all together")


class _AcceptAllValidator:
    def is_valid(self, value: Any) -> bool:
        return True

    def validate(self, value: Any) -> None:
        """Nothing is wrong with it."""


def _create_validator(schema: dict[str, Any], **options: Any) -> Any:
    """What checks values; a schema that names no dialect, or one that nobody knows, may have been meant as draft 7."""
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
    """On one line, with its beginning and its end: what is wrong stands after a value that may be long."""
    return clean_line(text if len(text) <= max_length else f"{text[: max_length - 110]}...{text[-100:]}", max_length)
