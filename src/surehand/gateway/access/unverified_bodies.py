"""UnverifiedBodies: reads messages whose signature covers the body, before they count as requests in flight.

Anybody can begin such a message and never end it. While its body arrives, it takes no place that others need.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from surehand.gateway.access.request_limits import RETRY_AFTER_SECONDS
from surehand.gateway.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

MAX_ARRIVING_PER_ADDRESS = 32
"""Messages of one network address whose body is not complete; a proxy in front sends those of all its clients."""


class UnverifiedBodies:
    """Reads bodies, a limited number for each network address at the same time."""

    def __init__(self) -> None:
        self._arriving: Counter[str] = Counter()

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """Wait for the whole body; returns what gives it to the app. Raises `Problem` for one message too many."""
        address = (scope.get("client") or ("",))[0]
        if self._arriving[address] >= MAX_ARRIVING_PER_ADDRESS:
            problem = f"{MAX_ARRIVING_PER_ADDRESS} messages of this address are arriving."
            raise Problem("rate_limited", problem, retry_after=RETRY_AFTER_SECONDS)
        self._arriving[address] += 1
        try:
            messages = await _read_messages(receive)
        finally:
            self._arriving[address] -= 1
            if not self._arriving[address]:
                del self._arriving[address]

        async def receive_again() -> Message:
            return messages.pop(0) if messages else await receive()

        return receive_again


async def _read_messages(receive: Receive) -> list[Message]:
    """The body in one message; or the message of its end, if the client has gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return [message]
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return [{**message, "body": b"".join(parts)}]
