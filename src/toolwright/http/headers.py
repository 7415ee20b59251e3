"""Headers: what may be sent, and what travels on when a redirect leads to another origin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from toolwright.core.errors import InvalidArguments
from toolwright.http.failures import unsent

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values in their order; a name may come more than once."""

MAX_BYTES = 65_536
OURS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade"),
    }
)
"""Headers of the connection itself: whoever could set them could say one thing to us and another to the server."""
_TRAVELLING = frozenset(
    {"accept", "accept-language", "content-type", "content-language", "content-encoding", "user-agent", "range"}
)
_OF_THE_BODY = frozenset(
    {"content-type", "content-language", "content-encoding", "content-location", "idempotency-key"}
)
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_BAD_VALUE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


def checked(headers: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> Headers:
    """Headers that can be sent; raises `InvalidArguments` that names the header and never its value."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    # What is accepted is what we can decode, within limits: nobody else has a say in that.
    found = tuple(_checked(name, value) for name, value in pairs if str(name).lower() != "accept-encoding")
    if sum(len(name) + len(value) + 4 for name, value in found) > MAX_BYTES:
        raise unsent(InvalidArguments(f"The headers are larger than {MAX_BYTES} bytes."))
    return found


def _checked(name: str, value: str) -> tuple[str, str]:
    if not _NAME.fullmatch(name):
        raise unsent(InvalidArguments(f"{name[:60]!r} is no name of a header."))
    if name.lower() in OURS:
        raise unsent(InvalidArguments(f"The header {name} belongs to the connection and cannot be set."))
    value = value.strip(" \t")
    if _BAD_VALUE.search(value):
        raise unsent(
            InvalidArguments(f"The value of the header {name} holds a line break, a control character or other script.")
        )
    return name, value


def has(headers: Headers, name: str) -> bool:
    """Whether a header is there, in whatever case."""
    return any(known.lower() == name for known, _ in headers)


def for_another_origin(headers: Headers) -> Headers:
    """What is known to be harmless; any other header may be a key under a name we have never heard of."""
    return tuple((name, value) for name, value in headers if name.lower() in _TRAVELLING)


def without_body(headers: Headers) -> Headers:
    """For a redirect that turns a POST into a GET."""
    return tuple((name, value) for name, value in headers if name.lower() not in _OF_THE_BODY)
