"""Bodies of requests: what a document says about one (`BodyPlan`), and the bytes that are sent.

`encode_body` is a pure function of plan and value. Files were read before, and stand in the value as `FileContent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from mimetypes import guess_type
from typing import Any
from urllib.parse import quote_plus

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.encoded_body import BodyPart, EncodedBody, encode_multipart
from surehand.providers.openapi.document import Located
from surehand.providers.openapi.media_types import BodyKind, essence, text_encoding
from surehand.providers.openapi.parameters import Style
from surehand.providers.openapi.scalars import is_undefined, json_text, value_text
from surehand.providers.openapi.styles import (
    PLAIN_FIELDS,
    FieldWriter,
    encode_reserved_query,
    styled_fields,
    styled_pairs,
)

_UNWRITABLE_MESSAGE = "The body is nested too deeply, or holds a number that JSON cannot."


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file that is sent: its name, and its bytes."""

    name: str
    content: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The type that the file's name suggests."""
        return guess_type(self.name)[0] or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class FieldEncoding:
    """How one field of a form is written."""

    style: Style | None = None
    """None if the document says nothing: then `content_type`, or the kind of the value, decides."""
    explode: bool = True
    allow_reserved: bool = False
    content_types: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of a part of a multipart body."""


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """The body of an operation."""

    media_type: str
    """As it is sent, without the boundary of a multipart body."""
    kind: BodyKind
    schema: Located
    required: bool = False
    description: str = ""
    encodings: Mapping[str, FieldEncoding] = field(default_factory=dict)
    file_fields: frozenset[str] = frozenset()
    """Fields whose values are files."""
    is_file: bool = False
    """Whether the whole body is a file."""
    examples: tuple[Any, ...] = ()
    """Of the whole body."""


def encode_body(plan: BodyPlan, value: Any) -> EncodedBody:
    """The bytes of a value; raises `InvalidArguments` for one that cannot be written in this media type."""
    try:
        match plan.kind:
            case "json":
                return EncodedBody(_json_bytes(value, plan.media_type), plan.media_type)
            case "json_lines":
                items = value if isinstance(value, list) else [value]
                lines = (_json_bytes(each, plan.media_type) for each in items)
                return EncodedBody(b"".join(b"%b\n" % line for line in lines), plan.media_type)
            case "form":
                pairs = _form_pairs(plan, _require_object(plan, value))
                return EncodedBody("&".join(pairs).encode(), plan.media_type)
            case "multipart":
                return _encode_multipart(plan, _require_object(plan, value))
            case _:
                return EncodedBody(_plain_bytes(plan, value), plan.media_type)
    except (ValueError, RecursionError):  # NaN, lone surrogates, and what is too deep to be walked
        raise mark_unsent(InvalidArguments(_UNWRITABLE_MESSAGE)) from None


def styled_names(plan: BodyPlan, name: str, value: Any) -> list[str]:
    """The names that a field of a form has in the body: its own, or those of the keys of an object."""
    encoding = plan.encodings.get(name, FieldEncoding())
    if plan.kind not in ("form", "multipart") or encoding.style is None or not isinstance(value, dict):
        return [name]
    return [each for each, _ in styled_fields(name, value, encoding.style, encoding.explode, PLAIN_FIELDS)]


def _require_object(plan: BodyPlan, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise mark_unsent(InvalidArguments(f"A body of the type {plan.media_type} must be an object."))
    return value


def _plain_bytes(plan: BodyPlan, value: Any) -> bytes:
    return value.content if isinstance(value, FileContent) else _text_bytes(value_text(value), plan.media_type)


def _text_bytes(text: str, media_type: str) -> bytes:
    """A text in the charset that its media type declares."""
    encoding = text_encoding(media_type)
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        if encoding == "utf-8":
            raise
        problem = f"A text of the type {media_type} cannot hold {text[error.start]!r}. Send a text without it."
        raise mark_unsent(InvalidArguments(problem)) from None


def _json_bytes(value: Any, media_type: str) -> bytes:
    # JSON is UTF-8. If a document declares another charset, escapes mean the same in all that extend ASCII.
    return json_text(value, ascii_only=text_encoding(media_type) != "utf-8").encode()


# Forms


def _form_pairs(plan: BodyPlan, fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        encoding = plan.encodings.get(name, FieldEncoding())
        if encoding.style is not None and not _holds_files(value):
            encode = encode_reserved_query if encoding.allow_reserved else quote_plus
            yield from styled_pairs(name, value, encoding.style, encoding.explode, FieldWriter(encode, quote_plus))
            continue
        values = value if isinstance(value, list) and not _is_json_type(encoding) else [value]
        for each in values:
            if not is_undefined(each) or each == {}:
                yield f"{quote_plus(name)}={quote_plus(_form_value(each, encoding))}"


def _is_json_type(encoding: FieldEncoding) -> bool:
    return any(essence(each).endswith(("/json", "+json")) for each in encoding.content_types)


def _form_value(value: Any, encoding: FieldEncoding) -> str | bytes:
    if isinstance(value, FileContent):
        return value.content
    return json_text(value) if _is_json_type(encoding) else value_text(value)


# Multipart


def _encode_multipart(plan: BodyPlan, fields: dict[str, Any]) -> EncodedBody:
    parts = [part for name, value in fields.items() for part in _parts(plan, name, value)]
    return encode_multipart(parts, essence(plan.media_type))


def _parts(plan: BodyPlan, name: str, value: Any) -> Iterator[BodyPart]:
    encoding = plan.encodings.get(name, FieldEncoding())
    if encoding.style is not None and not _holds_files(value):
        for field_name, text in styled_fields(name, value, encoding.style, encoding.explode, PLAIN_FIELDS):
            yield _part(field_name, text, encoding)
        return
    values = value if isinstance(value, list) and not _is_json_type(encoding) else [value]
    for each in values:
        if each is not None:
            yield _part(name, each, encoding)


def _holds_files(value: Any) -> bool:
    return isinstance(value[0] if isinstance(value, list) and value else value, FileContent)


def _part(name: str, value: Any, encoding: FieldEncoding) -> BodyPart:
    if isinstance(value, FileContent):
        return BodyPart(name, value.content, value.name, _file_type(value, encoding), encoding.headers)
    is_json = isinstance(value, (dict, list)) or _is_json_type(encoding)
    media_type = _declared_type(encoding) or ("application/json" if is_json else "")
    content = _json_bytes(value, media_type) if is_json else _text_bytes(value_text(value), media_type)
    return BodyPart(name, content, None, media_type, encoding.headers)


def _declared_type(encoding: FieldEncoding) -> str:
    return next((each for each in encoding.content_types if "*" not in each), "")


def _file_type(file: FileContent, encoding: FieldEncoding) -> str:
    """What the file's name suggests, if the document permits it; else the type that the document declares."""
    guessed = file.media_type
    is_permitted = any(_covers(each, guessed) for each in encoding.content_types)
    return guessed if is_permitted or not encoding.content_types else _declared_type(encoding) or guessed


def _covers(declared: str, media_type: str) -> bool:
    name = essence(declared)
    return name in (media_type, "*/*") or (name.endswith("/*") and media_type.startswith(name[:-1]))
