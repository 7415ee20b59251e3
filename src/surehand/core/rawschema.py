"""Parameters given as a JSON Schema: kept as they are, checked without trusting whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.jsontext import check_plain, holds_at_most, parse
from surehand.core.schema import JSON
from surehand.core.unfold import work


class RawParameters:
    """Parameters given as a JSON Schema, kept as it is and checked with `jsonschema-rs`."""

    MAX_BYTES, MAX_DEPTH, MAX_WORK = 262_144, 64, 1 << 22

    def __init__(self, schema: Mapping[str, JSON], *, where: str = "") -> None:
        self._given, self._where = dict(schema), where
        self._checked = self._given
        self._validator: Any = None
        self._work = 0.0
        """How many schemas one path through a value can meet, once that is worked out."""

    @property
    def schema(self) -> dict[str, JSON]:
        return self._given or {"type": "object", "properties": {}}

    def compile(self) -> None:
        if self._validator is not None:
            return
        import jsonschema_rs as js

        self._check_size()
        try:
            self._validator = js.validator_for(
                self._checked,
                retriever=_no_retrieval,
                # A schema may come from a stranger: patterns must run in linear time.
                pattern_options=js.RegexOptions(),
            )
        except Exception as error:
            raise self._wrong(f"The JSON Schema cannot be used: {str(error).splitlines()[0]}") from error

    @property
    def names(self) -> set[str]:
        """What the checked values are called."""
        return set(self._given.get("properties", {}))

    def narrow(self, needed: set[str], known: set[str]) -> None:
        """Refuse what a handler that takes its arguments by name cannot take, whatever the schema leaves open."""
        limits = {"required": sorted(needed), "propertyNames": {"enum": sorted(known)}}
        self._checked = {**self._given, "allOf": [*self._given.get("allOf", ()), limits]}
        self._validator = None
        self.compile()

    def _check_size(self) -> None:
        import json

        try:
            check_plain(self._given)
            size = len(json.dumps(self._given))
        except (InvalidArguments, TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"The JSON Schema is not plain JSON: {error}") from error
        if size > self.MAX_BYTES or _depth(self._given) > self.MAX_DEPTH:
            raise self._wrong(f"The JSON Schema is too large: {size} bytes, at most {self.MAX_BYTES} and 64 levels.")
        self._work = work(self._given)
        if self._work > self.MAX_WORK:
            raise self._wrong("The JSON Schema refers to its parts so often that checking a value could take for ever.")

    def _wrong(self, problem: str) -> DefinitionError:
        return DefinitionError(problem, fix="give a valid JSON Schema whose $refs are local.", where=self._where)

    def read(self, text: str) -> dict[str, Any]:
        values = parse(text)
        if not isinstance(values, dict):
            raise InvalidArguments(f"The arguments must be a JSON object, not {type(values).__name__}.")
        return self.take(values)

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._validator is None:
            self.compile()
        check_plain(values)
        values = dict(values)
        if self._accepts(values):
            return values
        from surehand.core.explain import coerce, explain_schema

        coerced = coerce(values, self.schema)
        if coerced != values and self._accepts(coerced):
            return coerced
        raise explain_schema(self._errors(values), values, self.schema)

    def _errors(self, values: dict[str, Any]) -> Iterable[Any]:
        """All that is wrong with a value; with a large one only the first thing, since all of them are made at once."""
        if holds_at_most(1_000, values):
            return self._validator.iter_errors(values)  # type: ignore[no-any-return]
        import jsonschema_rs as js

        try:
            self._validator.validate(values)
        except js.ValidationError as error:
            return [error]
        return []

    def _accepts(self, values: dict[str, Any]) -> bool:
        try:
            return bool(self._validator.is_valid(values))
        except ValueError as error:  # what jsonschema-rs cannot convert, such as a Python object
            raise InvalidArguments(f"The arguments are not plain JSON: {error}") from None


def _no_retrieval(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _depth(schema: Any) -> int:
    level, depth = [schema], 0
    while level:
        depth += 1
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
        ]
    return depth
