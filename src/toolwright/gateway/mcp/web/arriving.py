"""Arriving: the bodies of requests, from their first byte to their last, unless they are too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwright.gateway.mcp.caller import user_in
from toolwright.gateway.mcp.messages.allowance import LARGEST, ROOM

if TYPE_CHECKING:
    from starlette.types import Receive, Scope


class TooLarge(Exception):
    """It has more bytes than are read."""


class Crowded(Exception):
    """It took so long to come that others needed its room."""


class Arriving:
    """Reads bodies. Those that have come in part have so much room for each user; the oldest make room for others.

    What a body will take is not kept free for it: whoever says that much is to come need never send it.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._parts: dict[object, tuple[str | None, bytearray]] = {}

    async def whole(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body of a request; None if whoever sends it has gone half way. Raises `TooLarge`, if it can at once."""
        said = header(scope, b"content-length") or b""
        if said.isdigit() and (len(said) >= 20 or int(said) > LARGEST):
            raise TooLarge
        come = await receive()
        body: bytes = come.get("body", b"")
        if come.get("more_body"):
            return await self._rest(body, user_in(scope), receive)
        if len(body) > LARGEST:
            raise TooLarge
        return body if come["type"] == "http.request" else None

    async def _rest(self, begun: bytes, user: str | None, receive: Receive) -> bytes | None:
        key, body = object(), bytearray(begun)
        self._parts[key] = user, body
        try:
            while len(body) <= LARGEST:
                self._make_room(user)
                come = await receive()
                if key not in self._parts:
                    raise Crowded
                if come["type"] != "http.request":
                    return None
                body += come.get("body", b"")
                if not come.get("more_body") and len(body) <= LARGEST:
                    return bytes(body)
            raise TooLarge
        finally:
            self._parts.pop(key, None)

    def _make_room(self, user: str | None) -> None:
        theirs = [(key, body) for key, (whose, body) in self._parts.items() if whose == user]
        taken = sum(len(body) for _, body in theirs)
        for key, body in theirs:
            if taken <= self._room:
                break
            taken -= len(body)
            del self._parts[key]
            body.clear()  # now, and not when the next of its bytes comes


def header(scope: Scope, asked: bytes) -> bytes | None:
    """The header of that name, or the first of them."""
    for name, value in scope["headers"]:
        if name == asked:
            return value  # type: ignore[no-any-return]  # as the server has read it
    return None
