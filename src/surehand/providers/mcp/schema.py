"""Schema: a JSON Schema that a server sent, kept as it is and never trusted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.explain import preview
from surehand.core.jsontext import check_plain
from surehand.core.rawschema import RawParameters
from surehand.core.sanitize import clean_line
from surehand.providers.mcp.plain_result import MAX_DIRECT_BYTES
from surehand.providers.mcp.walk import compared, from_elsewhere, patterns, size, without_patterns

log = logging.getLogger("surehand")

OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""What takes anything."""
MOST_PATTERNS, PATTERN_BYTES = 500, 100_000
"""A stranger's expressions may take a moment to compile, all together: one of 100 kB is ready in a millisecond."""
MOST_OF_ALL = 5_000
"""Expressions of all schemas that are made under one `allowance`."""
MOST_STEPS, MOST_MATCHES = 100_000_000, 200_000
"""Comparisons, and characters times patterns, that checking one value may take: about a second at the very worst."""

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)


@contextmanager
def allowance(patterns: int = MOST_OF_ALL) -> Iterator[None]:
    """Bound what all schemas of one server may cost together; those that come too late check nothing."""
    token = _left.set([patterns])
    try:
        yield
    finally:
        _left.reset(token)


class Unusable(Exception):
    """What a server offers cannot be used; the text says why, in words for a log."""


class Schema(RawParameters):
    """Checks what it can: where it cannot be compiled, or would take too long, anything is taken, with a warning."""

    def __init__(self, schema: Mapping[str, Any], *, where: str = "", formats: bool | None = None) -> None:
        super().__init__(schema, where=where)
        self._formats = formats
        self._bound = self._warned = False
        self._steps = self._patterns = 0

    def bound(self) -> Self:
        """The same; raises `Unusable` for what is too large, too deep, entangled, or to be fetched from elsewhere."""
        if self._bound:
            return self
        try:
            self._check_size()
        except DefinitionError as error:
            raise Unusable(error.problem) from None
        if away := from_elsewhere(self._given):
            raise Unusable(f"The JSON Schema refers to {preview(away)}, and nothing is fetched.")
        self._bound = True
        return self

    def reworded(self, words: Callable[[dict[str, Any]], dict[str, Any]]) -> Self:
        """The same with other prose: what it asks for stays, and so does what checking it costs."""
        self._given = self._checked = words(self._given)
        return self

    @property
    def schema(self) -> dict[str, Any]:
        self.compile()
        return super().schema

    @property
    def checks(self) -> bool:
        """Whether anything is checked at all."""
        self.compile()
        return not isinstance(self._validator, _Anything)

    def compile(self) -> None:
        if self._validator is not None:
            return
        try:
            self.bound()
            self._validator = self._compiled()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's schema brings about, the tool stays usable
            log.warning("%s: values are not checked against its schema: %s", self._where, _first_line(error))
            self._validator = _Anything()
            if not self._is_sound():  # a model's API refuses a whole request for one broken schema
                self._given = dict(OPEN)

    def _compiled(self) -> Any:
        from jsonschema_rs import RegexOptions

        self._patterns = len(set(patterns(self._given)))
        if self._patterns > MOST_PATTERNS:
            raise ValueError(f"{self._patterns} patterns, at most {MOST_PATTERNS}")
        _spend(self._patterns)
        self._steps = int(self._work) + 10 * compared(self._given)
        # Patterns that run in linear time only, and whose size is bounded too: both are a stranger's.
        options = RegexOptions(size_limit=PATTERN_BYTES)
        return _validator(self._given, pattern_options=options, validate_formats=self._formats)

    def _is_sound(self) -> bool:
        """Whether only its patterns are at fault: those with look-around are common, and fine for a model to read."""
        try:
            self.bound()
            _validator(without_patterns(self._given))
        except Exception:  # noqa: BLE001 - see compile
            return False
        return True

    def _accepts(self, values: Any) -> bool:
        return not self._affordable(values) or super()._accepts(values)

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a value, on one line; None if nothing is, or if that cannot be found out in time."""
        self.compile()
        try:
            check_plain(value)
            return None if self._accepts(value) else self._first_problem(value)
        except InvalidArguments as error:
            return _first_line(error)

    def surely_takes(self, value: Any) -> bool:
        """Whether nothing is wrong with a value that is known to be plain JSON, and light; if not, ask `complaint`."""
        if self._validator is None:
            self.compile()
        if MAX_DIRECT_BYTES * self._steps > MOST_STEPS or MAX_DIRECT_BYTES * self._patterns > MOST_MATCHES:
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
            return f"{f'`{place}`: ' if place else ''}{_shortened(error.message)}"
        return ""

    def _affordable(self, value: Any) -> bool:
        parts, characters = size(value)
        good = parts * self._steps <= MOST_STEPS and characters * self._patterns <= MOST_MATCHES
        if not good and not self._warned:
            self._warned = True
            log.warning("%s: %d values, too many to be checked against its schema", self._where, parts)
        return good


def _spend(patterns: int) -> None:
    if patterns and (left := _left.get()) is not None:
        left[0] -= patterns
        if left[0] < 0:
            raise ValueError("the server's schemas have too many patterns, all together")


class _Anything:
    def is_valid(self, value: Any) -> bool:
        return True

    def validate(self, value: Any) -> None:
        """Nothing is wrong with it."""


def _validator(schema: dict[str, Any], **options: Any) -> Any:
    """What checks values; a schema that names no dialect, or one that nobody knows, may have been meant as draft 7."""
    from jsonschema_rs import validator_for

    try:
        return validator_for(schema, retriever=_fetch_nothing, **options)
    except ValueError:
        if str(schema.get("$schema", "")).startswith(("http://json-schema.org/draft-", "https://json-schema.org/")):
            raise
        with suppress(ValueError):
            return validator_for({**schema, "$schema": _DRAFT_7}, retriever=_fetch_nothing, **options)
        raise


def _fetch_nothing(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _first_line(error: Exception) -> str:
    return _shortened(str(error).partition("\n")[0])


def _shortened(text: str, most: int = 240) -> str:
    """On one line, with its beginning and its end: what is wrong stands after a value that may be long."""
    return clean_line(text if len(text) <= most else f"{text[: most - 110]}...{text[-100:]}", most)
