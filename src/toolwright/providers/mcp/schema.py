"""Schema: a JSON Schema that a server sent, kept as it is and never trusted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from toolwright.core.errors import DefinitionError, InvalidArguments
from toolwright.core.explain import preview
from toolwright.core.jsontext import check_plain
from toolwright.core.rawschema import RawParameters
from toolwright.core.unfold import work
from toolwright.providers.mcp.prose import MOST, MOST_TITLE, hides, line, smuggles, told

log = logging.getLogger("toolwright")

OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""What takes anything."""
MOST_PATTERNS, PATTERN_BYTES = 500, 100_000
"""A stranger's expressions may take a second to compile, all together: one of 100 kB is ready in a millisecond."""
MOST_STEPS, MOST_MATCHES = 100_000_000, 200_000
"""Comparisons, and characters times patterns, that checking one value may take: about a second at the very worst."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names."""
_CONTRACT = frozenset({
    "enum", "const", "default", "examples", "pattern", "required", "dependentRequired", "type", "format",
    "$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    "contentEncoding", "contentMediaType", "propertyOrdering",
})  # fmt: skip
"""Keywords whose values are part of what the two sides agreed on: refused or kept, never changed."""
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_VALUES = frozenset({"const", "enum", "default", "examples"})
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


class Unusable(Exception):
    """What a server offers cannot be used; the text says why, in words for a log."""


class Schema(RawParameters):
    """Checks what it can: where it cannot be compiled, or would take too long, anything is taken, with a warning."""

    def __init__(self, schema: Mapping[str, Any], *, where: str = "", formats: bool | None = None) -> None:
        super().__init__(schema, where=where)
        self._formats = formats
        self._bound = False
        self._steps = self._patterns = 0

    def bound(self) -> Self:
        """The same; raises `Unusable` for what is too large, too deep, entangled, or to be fetched from elsewhere."""
        if self._bound:
            return self
        try:
            self._check_size()
        except DefinitionError as error:
            raise Unusable(error.problem) from None
        if away := _from_elsewhere(self._given):
            raise Unusable(f"The JSON Schema refers to {preview(away)}, and nothing is fetched.")
        self._bound = True
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
            self._validator = self.bound()._compiled()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's schema brings about, the tool stays usable
            log.warning("%s: values are not checked against its schema: %s", self._where, _first_line(error))
            self._validator = _Anything()
            if not self._is_sound():  # a model's API refuses a whole request for one broken schema
                self._given = dict(OPEN)

    def _compiled(self) -> Any:
        from jsonschema_rs import RegexOptions

        self._patterns = len(set(_patterns(self._given)))
        if self._patterns > MOST_PATTERNS:
            raise ValueError(f"{self._patterns} patterns, at most {MOST_PATTERNS}")
        self._steps = int(work(self._given)) + 10 * _compared(self._given)
        # Patterns that run in linear time only, and whose size is bounded too: both are a stranger's.
        options = RegexOptions(size_limit=PATTERN_BYTES)
        return _validator(self._given, pattern_options=options, validate_formats=self._formats)

    def _is_sound(self) -> bool:
        """Whether only its patterns are at fault: those with look-around are common, and fine for a model to read."""
        try:
            _validator(_without_patterns(self.bound()._given))
        except Exception:  # noqa: BLE001 - see compile
            return False
        return True

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        self.compile()
        check_plain(values)
        return super().take(values) if self._affordable(values) else dict(values)

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a value, on one line; None if nothing is, or if that cannot be found out in time."""
        from jsonschema_rs import ValidationError

        self.compile()
        try:
            check_plain(value)
            if self._affordable(value):
                self._validator.validate(value)
        except ValidationError as error:
            place = line(".".join(map(str, error.instance_path)))
            return f"{f'`{place}`: ' if place else ''}{_shortened(error.message)}"
        except (InvalidArguments, ValueError) as error:
            return _first_line(error)
        return None

    def _affordable(self, value: Any) -> bool:
        parts, characters = _size(value)
        good = parts * self._steps <= MOST_STEPS and characters * self._patterns <= MOST_MATCHES
        if not good:
            log.warning("%s: %d values are too many to be checked against its schema", self._where, parts)
        return good


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


def object_schema(given: Any, where: str) -> dict[str, Any]:
    """The schema as one of an object with properties, which is what models' APIs want; what is none takes anything."""
    kind = given.get("type") if isinstance(given, Mapping) else given
    if kind == "object":
        return dict(given) if "properties" in given else {**given, "properties": {}}
    if isinstance(given, Mapping) and (kind is None or (isinstance(kind, list) and "object" in kind)):
        log.warning("%s: its input schema is of type %s; taken as an object's", where, preview(kind))
        return {"properties": {}, **given, "type": "object"}
    log.warning("%s: its input schema is none of an object (%s); it takes anything", where, preview(given))
    return dict(OPEN)


def cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its prose fit to be read; raises `Unusable` where names or values hide something.

    To be called on what `bound` let through: depth is bounded then.
    """
    made = _cleaned(schema)
    fields = made.get("properties")
    if isinstance(fields, dict):  # the short forms of "anything" and "nothing" are not known to everybody
        made["properties"] = {n: {} if f is True else {"not": {}} if f is False else f for n, f in fields.items()}
    return made  # type: ignore[no-any-return]  # a dict gives a dict


def _cleaned(node: Any, *, named: bool = False) -> Any:
    if isinstance(node, str):
        return told(node)
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name in node:
        if hides(name):
            raise Unusable(f"The name {name[:80]!a} in its schema has characters that cannot be seen.")
    return {key: _value(key, value, named=named) for key, value in node.items()}


def _value(key: str, value: Any, *, named: bool) -> Any:
    if named:
        return _cleaned(value)
    if key == "title" and isinstance(value, str):
        return line(value, MOST_TITLE)
    if key == "description" and isinstance(value, str):
        return told(value, MOST)
    if key in _CONTRACT:
        for text in _texts(value):
            if smuggles(text):
                raise Unusable(f"A value under {key!r} in its schema hides something: {text[:80]!a}.")
        return value
    return _cleaned(value, named=key in _NAMED)


def _nodes(root: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a schema, even inside plain values: a `$ref` can make a schema of any of them."""
    level = [root]
    while level:
        yield from (node for node in level if isinstance(node, dict))
        level = [inner for node in level for inner in _parts(node)]


def _texts(value: Any) -> Iterator[str]:
    level = [value]
    while level:
        yield from (item for item in level if isinstance(item, str))
        level = [inner for item in level for inner in _parts(item)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple)) else []


def _from_elsewhere(schema: dict[str, Any]) -> str | None:
    """A reference to what is not in this schema."""
    ids = {one.partition("#")[0] for node in _nodes(schema) if isinstance(one := node.get("$id"), str)}
    for node in _schemas(schema):
        for ref in (node.get(key) for key in _REFS):
            if isinstance(ref, str) and not ref.startswith("#") and ref.partition("#")[0] not in ids:
                return ref
    return None


def _schemas(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every mapping that stands where a schema does: not those of names, and none inside plain values."""
    level: list[tuple[Any, bool]] = [(root, False)]
    while level:
        yield from (node for node, named in level if isinstance(node, dict) and not named)
        level = [inner for node, named in level for inner in _below(node, named)]


def _below(node: Any, named: bool) -> list[tuple[Any, bool]]:
    if isinstance(node, list):
        return [(item, False) for item in node]
    if not isinstance(node, dict):
        return []
    return [(value, not named and key in _NAMED) for key, value in node.items() if named or key not in _VALUES]


def _patterns(schema: Any) -> Iterator[str]:
    for node in _nodes(schema):
        if isinstance(pattern := node.get("pattern"), str):
            yield pattern
        if isinstance(named := node.get("patternProperties"), dict):
            yield from named


def _without_patterns(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "pattern" or not isinstance(value, str)}
    return {key: {} if key == "patternProperties" else _without_patterns(value) for key, value in kept.items()}


def _compared(schema: Any) -> int:
    """How many values and patterns a value may be compared with, one after the other."""
    lists = [node.get(key) for node in _nodes(schema) for key in ("enum", "const", "patternProperties")]
    return sum(_size(one)[0] for one in lists if one is not None)


def _size(value: Any) -> tuple[int, int]:
    """Values, and characters, in a plain value; keys count as both."""
    level, parts, characters = [value], 0, 0
    while level:
        parts += len(level)
        characters += sum(len(item) for item in level if isinstance(item, str))
        level = [inner for item in level for inner in _parts(item)]
    return parts, characters


def _fetch_nothing(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _first_line(error: Exception) -> str:
    return _shortened(str(error).partition("\n")[0])


def _shortened(text: str, most: int = 240) -> str:
    text = line(text, 4 * most)
    return text if len(text) <= most else f"{text[: most - 60]}...{text[-50:]}"
