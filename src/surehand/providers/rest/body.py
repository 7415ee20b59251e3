"""Bodies of requests: JSON, form, multipart, text and binary, each from its template."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.encoded_body import BodyPart, EncodedBody, encode_multipart
from surehand.providers.rest.encoding import QueryStyle, encode_form, query_pairs
from surehand.providers.rest.json_template import (
    JsonTemplate,
    TemplateText,
    parse_json_template,
    parse_json_text_template,
)
from surehand.providers.rest.template import RequestValues, parse_template, scalar_text

BodyType: TypeAlias = Literal["json", "form", "multipart", "text", "binary"]
BODY_TYPES: tuple[BodyType, ...] = get_args(BodyType)
_CONTENT_TYPES: Mapping[BodyType, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
    "binary": "application/octet-stream",
}
_FILE_KEYS = frozenset({"filename", "content", "base64", "content_type"})


@dataclass(frozen=True, slots=True)
class BodyTemplate:
    """A template of a body, and how its value is encoded."""

    type: BodyType
    template: JsonTemplate
    style: QueryStyle = "repeat"
    """How lists are written in a form."""

    def encode(self, values: RequestValues) -> EncodedBody:
        """The body with all values; raises `InvalidArguments` for a value that it cannot hold."""
        return encode_body(self.type, self.template.resolve(values), self.style)


def parse_body_template(body: Any, body_type: Any, style: QueryStyle = "repeat") -> BodyTemplate:
    """Parse what a developer gave as `body`; raises `DefinitionError`."""
    if body_type not in BODY_TYPES:
        raise DefinitionError(f"Unknown body_type {body_type!r}.", fix=f"use one of {', '.join(BODY_TYPES)}.")
    if body_type in ("text", "binary"):
        if not isinstance(body, str):
            raise DefinitionError(f"A {body_type} body must be a text.", fix="write body='${parameters.name}'.")
        return BodyTemplate(body_type, TemplateText(parse_template(body)))
    if isinstance(body, str):
        return BodyTemplate(body_type, parse_json_text_template(body), style)
    if body_type != "json" and not isinstance(body, Mapping):
        raise DefinitionError(
            f"A {body_type} body must be a mapping.", fix="write body={'name': '${parameters.name}'}."
        )
    return BodyTemplate(body_type, parse_json_template(body), style)


def encode_body(body_type: BodyType, value: Any, style: QueryStyle = "repeat") -> EncodedBody:
    """Encode the value of a body; raises `InvalidArguments`."""
    match body_type:
        case "json":
            content = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        case "form":
            content = encode_form([pair for name, item in _fields(value) for pair in query_pairs(name, item, style)])
        case "text":
            content = scalar_text(value, "The body").encode()
        case "binary":
            content = _decode_base64(value, "The body")
        case "multipart":
            return encode_multipart(_multipart_parts(_fields(value)))
    return EncodedBody(content, _CONTENT_TYPES[body_type])


def _fields(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise mark_unsent(InvalidArguments(f"The body must be an object, got {type(value).__name__}."))
    return [(str(name), item) for name, item in value.items()]


def _multipart_parts(fields: list[tuple[str, Any]]) -> Iterator[BodyPart]:
    """Fields and files; a file is an object with `content` or `base64`, and `filename` and `content_type`."""
    for name, value in fields:
        if isinstance(value, Mapping) and {"content", "base64"} & value.keys() and value.keys() <= _FILE_KEYS:
            yield _file_part(name, value)
        elif isinstance(value, (Mapping, list)) and not _is_list_of_scalars(value):
            content = json.dumps(value, ensure_ascii=False, allow_nan=False)
            yield BodyPart(name, content.encode(), media_type="application/json")
        else:
            for _, texts in query_pairs(name, value):
                yield from (BodyPart(name, text.encode()) for text in texts)


def _is_list_of_scalars(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, (Mapping, list)) for item in value)


def _file_part(name: str, value: Mapping[str, Any]) -> BodyPart:
    if "base64" in value:
        content = _decode_base64(value["base64"], name)
    else:
        content = scalar_text(value["content"], name).encode()
    filename = scalar_text(value.get("filename", name), f"filename of {name}")
    content_type = scalar_text(value.get("content_type", "application/octet-stream"), f"content_type of {name}")
    if not content_type.isprintable():
        raise mark_unsent(InvalidArguments(f"content_type of {name} holds a line break."))
    return BodyPart(name, content, filename, content_type)


def _decode_base64(value: Any, label: str) -> bytes:
    try:
        return b64decode(scalar_text(value, label), validate=True)
    except (Base64Error, ValueError):
        raise mark_unsent(InvalidArguments(f"{label} must be base64.")) from None
