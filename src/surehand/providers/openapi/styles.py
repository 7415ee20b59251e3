"""Serialisation of parameters: every `style` and `explode`, for path, query, header and cookie.

The forms are those of RFC 6570 and of the tables in the OpenAPI specification. Data is percent-encoded, and the
delimiters of a style are not, so that a server can tell them apart. Pure functions: a value goes in, text comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.parameters import Parameter, Style
from surehand.providers.openapi.scalars import is_undefined, json_text, value_text

Encoder: TypeAlias = Callable[[str], str]
_DELIMITERS: dict[Style, str] = {"spaceDelimited": "%20", "pipeDelimited": "|", "tabDelimited": "%09"}
_RESERVED_IN_QUERY = ":/?[]@!$'()*,;="
"""Reserved characters that `allowReserved` leaves: all but `#`, `&` and `+`, which would end or change the value."""
_RESERVED_IN_PATH = ":@!$&'()*+,;=[]"
"""Reserved characters that may stand within a segment of a path."""


def encode_strictly(text: str) -> str:
    """Percent-encode everything but letters, digits and `-._~`."""
    return quote(text, safe="")


def encode_reserved_query(text: str) -> str:
    """Percent-encode a value of the query for which `allowReserved` is set."""
    return quote(text, safe=_RESERVED_IN_QUERY)


def encode_reserved_path(text: str) -> str:
    """Percent-encode a value of the path for which `allowReserved` is set."""
    return quote(text, safe=_RESERVED_IN_PATH)


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """How names, values and delimiters are written in one place: in the query, in a form, or as they are."""

    encode_value: Encoder = encode_strictly
    encode_name: Encoder = encode_strictly
    delimiters: Mapping[Style, str] = field(default_factory=lambda: _DELIMITERS)


PLAIN_FIELDS = FieldWriter(_unchanged, _unchanged, {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"})
"""For headers, and for the parts of a multipart body, where nothing is percent-encoded."""


# Path


def path_text(parameter: Parameter, value: Any) -> str:
    """A parameter of the path. Raises `InvalidArguments` for a value that is nothing there."""
    encode = encode_reserved_path if parameter.allow_reserved else encode_strictly
    if parameter.media_type:
        return encode(content_text(parameter.media_type, value))
    if is_undefined(value):
        raise mark_unsent(InvalidArguments(f"{parameter.name} is part of the path, and cannot be empty."))
    name = encode_strictly(parameter.name)
    if parameter.style == "matrix":
        return "".join(f";{pair}" for pair in _matrix_pairs(name, value, parameter.explode, encode))
    separator = "." if parameter.style == "label" and parameter.explode else ","
    separator = _DELIMITERS.get(parameter.style, separator)
    joined = separator.join(_items(value, parameter.explode, encode))
    return f".{joined}" if parameter.style == "label" else joined


def _matrix_pairs(name: str, value: Any, explode: bool, encode: Encoder) -> Iterator[str]:
    if explode and isinstance(value, dict):
        yield from _items(value, True, encode)
        return
    values = value if explode and isinstance(value, list) else [value]
    for each in values:
        text = ",".join(_items(each, False, encode))
        yield f"{name}={text}" if text else name  # RFC 6570: an empty value has no equals sign


def _items(value: Any, explode: bool, encode: Encoder) -> Iterator[str]:
    """The texts of a list, or of the names and values of an object, or of a single value."""
    if isinstance(value, list):
        yield from (encode(value_text(each)) for each in value if each is not None)
    elif isinstance(value, dict):
        for name, each in value.items():
            if each is None:
                continue
            if explode:
                yield f"{encode(name)}={encode(value_text(each))}"
            else:
                yield encode(name)
                yield encode(value_text(each))
    else:
        yield encode(value_text(value))


# Query


def query_pairs(parameter: Parameter, value: Any) -> list[str]:
    """The `name=value` pairs of a parameter of the query; none for a value that is left out."""
    encode = encode_reserved_query if parameter.allow_reserved else encode_strictly
    if parameter.media_type:
        return [f"{encode_strictly(parameter.name)}={encode(content_text(parameter.media_type, value))}"]
    if value is None and parameter.required:
        return [f"{encode_strictly(parameter.name)}="]
    return styled_pairs(parameter.name, value, parameter.style, parameter.explode, FieldWriter(encode))


def styled_pairs(name: str, value: Any, style: Style, explode: bool, writer: FieldWriter) -> list[str]:
    """The `name=value` pairs of a value in the query or in a form."""
    return [f"{field_name}={text}" for field_name, text in styled_fields(name, value, style, explode, writer)]


def styled_fields(name: str, value: Any, style: Style, explode: bool, writer: FieldWriter) -> Iterator[tuple[str, str]]:
    """The names and texts of a value in the query or in a form; none for a value that is left out."""
    if is_undefined(value):
        return
    written_name = writer.encode_name(name)
    if style == "deepObject":
        yield from _deep_fields(written_name, value, writer)
    elif explode and isinstance(value, dict):
        for key, each in value.items():
            if each is not None:
                yield writer.encode_name(key), writer.encode_value(value_text(each))
    elif explode and isinstance(value, list):
        yield from ((written_name, text) for text in _items(value, False, writer.encode_value))
    else:
        delimiter = writer.delimiters.get(style, ",")
        yield written_name, delimiter.join(_items(value, False, writer.encode_value))


def _deep_fields(name: str, value: Any, writer: FieldWriter) -> Iterator[tuple[str, str]]:
    """`color[R]=100`, and so on for what is nested; items of a list are numbered."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep_fields(f"{name}[{writer.encode_name(key)}]", each, writer)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _deep_fields(f"{name}[{number}]", each, writer)
    elif value is not None:
        yield name, writer.encode_value(value_text(value))


def content_text(media_type: str, value: Any, *, ascii_only: bool = False) -> str:
    """The value of a parameter with `content`: JSON, or its text."""
    if isinstance(value, str) and "json" not in media_type:
        return value
    return json_text(value, ascii_only=ascii_only)


# Header and cookie


def header_text(parameter: Parameter, value: Any) -> str | None:
    """The value of a header; None if it is left out. Header values are not percent-encoded."""
    if value is None:
        return None
    if parameter.media_type:
        # With escapes, because a header cannot hold every character; in JSON they mean the same.
        return content_text(parameter.media_type, value, ascii_only=True)
    separator = PLAIN_FIELDS.delimiters.get(parameter.style, ",")
    return separator.join(_items(value, parameter.explode, _unchanged))


def cookie_pairs(parameter: Parameter, value: Any) -> list[str]:
    """The pairs of a parameter in the `Cookie` header, which joins them with `; `."""
    if parameter.media_type:
        text = content_text(parameter.media_type, value)
        return [f"{encode_strictly(parameter.name)}={encode_strictly(text)}"]
    if is_undefined(value):
        return []
    if parameter.style == "cookie":
        writer = FieldWriter(_cookie_value, _cookie_value)
        return styled_pairs(parameter.name, value, "form", parameter.explode, writer)
    pairs = styled_pairs(parameter.name, value, parameter.style, parameter.explode, FieldWriter())
    return ["&".join(pairs)]  # the style `form` joins with an ampersand, also in a cookie


def _cookie_value(text: str) -> str:
    if any(char <= " " or char in '",;\\' or char >= "\x7f" for char in text):
        problem = "A cookie cannot hold spaces, quotes, commas, semicolons, backslashes or other scripts."
        raise mark_unsent(InvalidArguments(problem))
    return text
