"""Whole: the body of a request, from its first byte to its last, unless it is too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwright.gateway.mcp.pipe.reading import MOST

if TYPE_CHECKING:
    from starlette.types import Receive, Scope


class TooLarge(Exception):
    """It has more bytes than are read."""


async def whole(scope: Scope, receive: Receive) -> bytes | None:
    """The body of a request; None if whoever sends it has gone half way. Raises `TooLarge`, if it can at once."""
    said = header(scope, b"content-length") or b""
    if said.isdigit() and (len(said) >= 20 or int(said) > MOST):
        raise TooLarge
    come = await receive()
    body: bytes = come.get("body", b"")
    if come.get("more_body"):
        return await _rest(body, receive)
    if len(body) > MOST:
        raise TooLarge
    return body if come["type"] == "http.request" else None


async def _rest(begun: bytes, receive: Receive) -> bytes | None:
    body = bytearray(begun)
    while len(body) <= MOST:
        come = await receive()
        if come["type"] != "http.request":
            return None
        body += come.get("body", b"")
        if not come.get("more_body") and len(body) <= MOST:
            return bytes(body)
    raise TooLarge


def header(scope: Scope, asked: bytes) -> bytes | None:
    """The header of that name, or the first of them."""
    for name, value in scope["headers"]:
        if name == asked:
            return value  # type: ignore[no-any-return]  # as the server has read it
    return None
