"""Request headers: which may be sent, and which are sent on when a redirect leads to another origin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values in order; a name may occur more than once."""

MAX_HEADERS_BYTES = 65_536
CONNECTION_HEADERS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade"),
    }
)
"""Headers that belong to the connection: a caller who sets them could mislead a server about where the body ends."""
_HARMLESS_HEADERS = frozenset(
    {"accept", "accept-language", "content-type", "content-language", "content-encoding", "user-agent", "range"}
)
_BODY_HEADERS = frozenset(
    {"content-type", "content-language", "content-encoding", "content-location", "idempotency-key"}
)
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_INVALID_VALUE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


def validate_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> HeaderPairs:
    """The headers as they are sent; raises `InvalidArguments`, which names the header and never its value."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    # Accept-Encoding is left out: it has to say what decoding.py can unpack within limits.
    validated = tuple(_validate_header(name, value) for name, value in pairs if str(name).lower() != "accept-encoding")
    if sum(len(name) + len(value) + 4 for name, value in validated) > MAX_HEADERS_BYTES:
        raise mark_unsent(InvalidArguments(f"The headers are larger than {MAX_HEADERS_BYTES} bytes."))
    return validated


def _validate_header(name: str, value: str) -> tuple[str, str]:
    if not _HEADER_NAME.fullmatch(name):
        raise mark_unsent(InvalidArguments(f"{name[:60]!r} is no name of a header."))
    if name.lower() in CONNECTION_HEADERS:
        raise mark_unsent(InvalidArguments(f"The header {name} belongs to the connection and cannot be set."))
    value = value.strip(" \t")
    if _INVALID_VALUE.search(value):
        raise mark_unsent(
            InvalidArguments(f"The value of the header {name} holds a line break, a control character or other script.")
        )
    return name, value


def has_header(headers: HeaderPairs, name: str) -> bool:
    """Whether a header of that lower-case name is among them."""
    return any(known.lower() == name for known, _ in headers)


def headers_for_another_origin(headers: HeaderPairs) -> HeaderPairs:
    """Only the headers that are known to be harmless: any other may hold a credential."""
    return tuple((name, value) for name, value in headers if name.lower() in _HARMLESS_HEADERS)


def without_body_headers(headers: HeaderPairs) -> HeaderPairs:
    """The headers for a redirect that turns a POST into a GET."""
    return tuple((name, value) for name, value in headers if name.lower() not in _BODY_HEADERS)
