"""The URL of a request template: constant scheme, host and port; path segments and query values with references."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote

from surehand.core.errors import DefinitionError, ToolError
from surehand.http.target import HttpTarget, parse_target
from surehand.providers.rest.encoding import Pair, QueryStyle, encode_path_value, query_pairs, require_segment
from surehand.providers.rest.template import ArgumentReference, Reference, RequestValues, TextTemplate, parse_template

_ORIGIN = re.compile(r"https?://[^/?#\s{}$]+(?=[/?#]|\Z)", re.IGNORECASE)
_UNQUOTED_CHARACTERS = "%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A URL: the origin, the segments of the path, and the query that is written in it."""

    origin: HttpTarget
    segments: tuple[TextTemplate, ...]
    query: tuple[tuple[str, TextTemplate | None], ...]
    """Names and values; a value that is one reference may be a list or an object. None: a name without `=`."""

    @property
    def references(self) -> Iterator[Reference]:
        """All references of the URL."""
        for template in (*self.segments, *(value for _, value in self.query if value is not None)):
            yield from template.references

    def render_path(self, values: RequestValues) -> str:
        """The encoded path."""
        return "/" + "/".join(_render_segment(segment, values) for segment in self.segments)

    def render_query(self, values: RequestValues, style: QueryStyle) -> Iterator[Pair]:
        """The pairs of the query that is written in the URL."""
        for name, template in self.query:
            yield from _query_value_pairs(name, template, values, style)


def _query_value_pairs(
    name: str, template: TextTemplate | None, values: RequestValues, style: QueryStyle
) -> list[Pair]:
    """The pairs of one value of a query: a text with references, or whatever its only reference stands for."""
    if template is None:
        return [(name, ())]
    reference = template.only_reference
    value: Any = template.render(values, name) if reference is None else reference.resolve(values)
    return query_pairs(name, value, style)


def _render_segment(segment: TextTemplate, values: RequestValues) -> str:
    parts = [
        part if isinstance(part, str) else encode_path_value(part.resolve(values), _label(part))
        for part in segment.parts
    ]
    return require_segment("".join(parts))


def _label(reference: Reference) -> str:
    return reference.label if isinstance(reference, ArgumentReference) else reference.name


def parse_url_template(url: Any) -> UrlTemplate:
    """Parse a URL; raises `DefinitionError` unless its scheme, host and port are constant."""
    if not isinstance(url, str):
        raise DefinitionError(f"The URL must be a text, got {url!r}.", fix="write https://host/path.")
    template = parse_template(url.strip(), "url")
    start = template.parts[0] if template.parts and isinstance(template.parts[0], str) else ""
    match = _ORIGIN.match(start)
    if match is None or (match.end() == len(start) and len(template.parts) > 1):  # a reference follows the host
        raise DefinitionError(
            "The URL must begin with a constant scheme, host and port.",
            fix="write https://host/path, with references after the host only.",
        )
    origin = _parse_origin(match[0])
    path, query = _split_query([start[match.end() :], *template.parts[1:]])
    return UrlTemplate(origin, tuple(_parse_segments(path)), tuple(_parse_query(query)))


def _parse_origin(text: str) -> HttpTarget:
    try:
        return parse_target(text)
    except ToolError as error:
        raise DefinitionError(f"The URL cannot be used: {error}", fix="write https://host/path.") from None


def _split_query(parts: list[str | Reference]) -> tuple[list[str | Reference], list[str | Reference]]:
    path: list[str | Reference] = []
    query: list[str | Reference] = []
    current = path
    for part in parts:
        if isinstance(part, str) and "#" in part:
            raise DefinitionError("The URL has a fragment, which is never sent.", fix="remove '#' and what follows.")
        if isinstance(part, str) and current is path and "?" in part:
            before, _, after = part.partition("?")
            path.append(before)
            current = query
            part = after
        current.append(part)
    return path, query


def _split_at(parts: list[str | Reference], separator: str) -> Iterator[list[str | Reference]]:
    """The parts between the separators, which stand in literal text only."""
    piece: list[str | Reference] = []
    for part in parts:
        if not isinstance(part, str):
            piece.append(part)
            continue
        first, *others = part.split(separator)
        piece.append(first)
        for other in others:
            yield piece
            piece = [other]
    yield piece


def _parse_segments(parts: list[str | Reference]) -> Iterator[TextTemplate]:
    first, *segments = _split_at(parts, "/")
    if any(first):
        raise DefinitionError("The URL has no '/' after its host.", fix="write https://host/path.")
    for segment in segments:
        encoded = [quote(part, safe=_UNQUOTED_CHARACTERS) if isinstance(part, str) else part for part in segment]
        literal = "".join(part for part in encoded if isinstance(part, str))
        if unquote(literal) in (".", "..") and all(isinstance(part, str) for part in encoded):
            raise DefinitionError(f"The path has the step {literal!r}.", fix="write the path that is meant.")
        yield TextTemplate(tuple(part for part in encoded if part != ""))


def _parse_query(parts: list[str | Reference]) -> Iterator[tuple[str, TextTemplate | None]]:
    for pair in _split_at(parts, "&"):
        if pair in ([], [""]):
            continue
        name, equals, rest = pair[0].partition("=") if isinstance(pair[0], str) else ("", "", "")
        if not name or (not equals and len(pair) > 1):
            raise DefinitionError(
                "A name in the query is not constant.", fix="write ?name={name}, or give query= a mapping."
            )
        # Literal values are kept decoded, because all values are encoded when the request is built.
        values = [unquote(part.replace("+", " ")) if isinstance(part, str) else part for part in (rest, *pair[1:])]
        template = TextTemplate(tuple(part for part in values if part != "")) if equals else None
        yield unquote(name.replace("+", " ")), template


def target_with_path(origin: HttpTarget, path: str, query: str) -> HttpTarget:
    """The target of a request: the origin with an encoded path and query."""
    return replace(origin, path=f"{path}?{query}" if query else path)
