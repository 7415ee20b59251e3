"""Media types of request bodies: which kind of body each is, and which one of several is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Literal, TypeAlias

from surehand.providers.openapi.document_limits import MAX_ALTERNATIVES

BodyKind: TypeAlias = Literal["json", "json_lines", "form", "multipart", "text", "binary"]
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_JSON_LINES = frozenset({"application/jsonl", "application/x-jsonl", "application/ndjson", "application/x-ndjson"})
_TEXT_TYPES = frozenset({"application/xml", "application/yaml", "application/x-yaml", "application/javascript"})
_TEXT_SUFFIXES = ("+xml", "+yaml")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:+-]{1,40})", re.IGNORECASE)
_UTF_8_NAMES = frozenset({"utf-8", "utf8"})
_OTHER_CHARSETS = frozenset(
    {
        "iso-8859-1", "iso-8859-2", "iso-8859-9", "iso-8859-15", "latin1", "latin-1", "windows-1250", "windows-1251",
        "windows-1252", "windows-1254", "koi8-r", "utf-16", "utf-16le", "utf-16be", "big5", "gbk", "gb2312", "gb18030",
        "shift_jis", "euc-jp", "euc-kr", "iso-2022-jp",
    }
)  # fmt: skip
"""Charsets that Python has under the same names. It has encodings that are no charsets, too, such as `punycode`."""
_PREFERENCE: tuple[BodyKind, ...] = ("json", "form", "multipart", "json_lines", "text", "binary")
"""A body with structure is easier for a model than text, and JSON the easiest."""


def essence(media_type: str) -> str:
    """The media type without its parameters, in lower case: `application/json`."""
    return media_type.partition(";")[0].strip().lower()


def body_kind(media_type: str) -> BodyKind:
    """How a body of this media type is written."""
    name = essence(media_type)
    if name in _JSON_LINES:
        return "json_lines"
    if name == "application/json" or name.endswith(("+json", "/json", "/x-json")) or name in ("*/*", "application/*"):
        return "json"
    if name == FORM:
        return "form"
    if name.startswith("multipart/"):
        return "multipart"
    if name.startswith("text/") or name in _TEXT_TYPES or name.endswith(_TEXT_SUFFIXES):
        return "text"
    return "binary"


def text_encoding(media_type: str) -> str:
    """The encoding of texts of this media type: UTF-8, unless it declares another `charset`.

    Of a charset that is not known, only what it probably shares with ASCII is sent.
    """
    match = _CHARSET.search(media_type)
    name = match[1].lower() if match else "utf-8"
    if name in _UTF_8_NAMES:
        return "utf-8"
    return name if name in _OTHER_CHARSETS else "ascii"


def choose_media_type(media_types: Iterable[str]) -> str:
    """The media type that is sent, of those that an operation accepts: plain JSON if it is among them."""
    offered = islice(media_types, MAX_ALTERNATIVES)
    return min(offered, key=lambda each: (_PREFERENCE.index(body_kind(each)), essence(each) != "application/json"))


def sent_media_type(media_type: str) -> str:
    """The `Content-Type` of a media type that may be a range such as `*/*`."""
    if "*" not in media_type:
        return media_type.strip()
    kind = body_kind(media_type)
    return {"json": "application/json", "text": "text/plain", "multipart": MULTIPART}.get(
        kind, "application/octet-stream"
    )
