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
        key = object()
        self._parts[key] = user, bytearray()
        try:
            self._add(key, begun)
            while True:
                self._make_room(user)
                come = await receive()
                if come["type"] != "http.request":
                    return None
                self._add(key, come.get("body", b""))
                if not come.get("more_body"):
                    return bytes(self._parts[key][1])
        finally:
            self._parts.pop(key, None)

    def _add(self, key: object, more: bytes) -> None:
        if key not in self._parts:
            raise Crowded
        _, body = self._parts[key]
        body += more
        if len(body) > LARGEST:
            raise TooLarge

    def _make_room(self, user: str | None) -> None:
        sizes = {key: len(body) for key, (whose, body) in self._parts.items() if whose == user}
        taken = sum(sizes.values())
        for key, size in sizes.items():
            if taken <= self._room:
                break
            taken -= size
            del self._parts[key]  # which nobody else holds: emptied only, it would keep a place that nothing else fits


def header(scope: Scope, asked: bytes) -> bytes | None:
    """The header of that name, or the first of them."""
    for name, value in scope["headers"]:
        if name == asked:
            return value  # type: ignore[no-any-return]  # as the server has read it
    return None
