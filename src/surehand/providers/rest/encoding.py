"""How a JSON value is written in each place of a request: a path segment, the query, a form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, quote_plus

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.rest.template import scalar_text

QueryStyle: TypeAlias = Literal["repeat", "indexed", "comma"]
"""How a list is written: `k=1&k=2`, `k[0]=1&k[1]=2` or `k=1,2`. An object is always written as `k[name]=value`."""
Pair: TypeAlias = tuple[str, tuple[str, ...]]
"""A name and its value, not encoded; several values are written with commas between them, none without `=`."""

MAX_QUERY_PAIRS = 1_000
_DOT_SEGMENTS = frozenset({".", ".."})
_SLASHES = re.compile(r"[/\\]")
_NAME_CHARACTERS = "[]"
"""Delimiters of nested names, which are sent as they are."""


def encode_path_value(value: Any, label: str) -> str:
    """A value as a part of one path segment; raises `InvalidArguments` for one that could change the path's shape."""
    text = scalar_text(value, label)
    if not text:
        raise mark_unsent(InvalidArguments(f"{label} must not be empty: it is a part of the URL's path."))
    if holds_dot_segment(text):
        raise mark_unsent(
            InvalidArguments(f"{label} must not hold '.' or '..' as a step: it is a part of a URL's path.")
        )
    return quote(text, safe="")


def holds_dot_segment(text: str) -> bool:
    """Whether a text that is not encoded has `.` or `..` as a step. OpenAPI operations refuse it, too."""
    # Many servers decode %2F before they look at dot segments, and some leave out what follows a semicolon.
    return any(step.partition(";")[0] in _DOT_SEGMENTS for step in _SLASHES.split(text))


def require_segment(segment: str) -> str:
    """An encoded path segment; raises `InvalidArguments` if its parts together are a dot segment."""
    if segment in _DOT_SEGMENTS:
        raise mark_unsent(InvalidArguments(f"The arguments make {segment!r} a step of the URL's path."))
    return segment


def query_pairs(name: str, value: Any, style: QueryStyle = "repeat") -> list[Pair]:
    """The pairs that write a value under a name; null writes nothing."""
    if style == "indexed" and isinstance(value, Mapping):
        value = [value]  # services with such queries take lists of objects, and models often send one object alone
    pairs = list(_pairs(name, value, style))
    if len(pairs) > MAX_QUERY_PAIRS:
        raise mark_unsent(InvalidArguments(f"{name} has {len(pairs)} values; at most {MAX_QUERY_PAIRS} are sent."))
    return pairs


def _pairs(name: str, value: Any, style: QueryStyle) -> Iterator[Pair]:
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _pairs(_nested_name(name, str(key)), item, style)
    elif not isinstance(value, list):
        yield name, (scalar_text(value, name),)
    elif style == "comma" and value:
        yield name, tuple(scalar_text(item, name) for item in value)
    else:
        # Lists within lists, and objects within lists, cannot be told apart without an index.
        is_nested = any(isinstance(item, (Mapping, list)) for item in value)
        for index, item in enumerate(value):
            yield from _pairs(f"{name}[{index}]" if is_nested or style == "indexed" else name, item, style)


def _nested_name(name: str, key: str) -> str:
    if "[" in key or "]" in key:
        raise mark_unsent(InvalidArguments(f"The key {key[:60]!r} of {name} must not hold brackets."))
    return f"{name}[{key}]"


def encode_query(pairs: Iterable[Pair]) -> str:
    """Pairs as a query; brackets of nested names, and commas between values, stay as they are."""
    return "&".join(_encode_pair(name, values) for name, values in pairs)


def _encode_pair(name: str, values: tuple[str, ...]) -> str:
    quoted_name = quote(name, safe=_NAME_CHARACTERS)
    return f"{quoted_name}={','.join(quote(value, safe='') for value in values)}" if values else quoted_name


def encode_form(pairs: Iterable[Pair]) -> bytes:
    """Pairs as `application/x-www-form-urlencoded`."""
    return "&".join(f"{quote_plus(name)}={quote_plus(','.join(values))}" for name, values in pairs).encode()
