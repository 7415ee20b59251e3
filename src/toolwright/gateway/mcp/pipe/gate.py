"""Gate: which requests of one connection run, which wait for their turn, and which are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCNotification, JSONRPCRequest, RequestId

from toolwright.gateway.mcp.pipe.bulk import weight
from toolwright.gateway.mcp.pipe.frames import Wrong, read

if TYPE_CHECKING:
    from toolwright.gateway.mcp.pipe.lines import Overlong

AT_ONCE = 256
"""Requests of one connection that run at the same time."""
ROOM = 64 << 20
"""Bytes of requests that run."""
HELD = 8 << 20
"""Bytes of requests that wait for their turn."""
BUSY = -32000
"""The code of a request that is refused because too many others wait: one that the protocol leaves to servers."""


class Gate:
    """Lets requests through while there is room, and all else always.

    Answers to our own questions and cancellations never wait behind requests: it may be these that make room.
    """

    def __init__(
        self,
        refuse: Callable[[Wrong], None],
        settled: Callable[[], None],
        *,
        at_once: int = AT_ONCE,
        room: int = ROOM,
        held: int = HELD,
    ) -> None:
        self._refuse, self._settled, self._at_once, self._most_held = refuse, settled, at_once, held
        self._running: dict[RequestId, int] = {}
        """How much room each takes."""
        self._room = room
        self._held: dict[RequestId, bytes] = {}
        self._held_size = 0
        self.ready: deque[SessionMessage] = deque()
        """Messages to be handed on."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing waits."""
        return not (self._running or self._held or self.ready)

    def take(self, line: bytes | Overlong) -> None:
        """See what a line says, and what becomes of it."""
        message = read(line)
        if isinstance(message, Wrong):
            if message.is_answer:
                self.ready.append(SessionMessage(message.message()))
            else:
                self._refuse(message)
        elif isinstance(message, JSONRPCRequest):
            self._request(message, line)
        else:
            if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                self._cancelled(message)
            self.ready.append(SessionMessage(message))

    def done(self, request: RequestId) -> None:
        """A request was answered: another may have its turn."""
        self._room += self._running.pop(coerce_request_id(request), 0)
        while self._held and self._has_room(next(iter(self._held.values()))):
            line = self._held.pop(next(iter(self._held)))
            self._held_size -= len(line)
            message = read(line)
            assert isinstance(message, JSONRPCRequest)
            self._pass(message, coerce_request_id(message.id), weight(line))
        self._settled()

    def _has_room(self, line: bytes) -> bool:
        return len(self._running) < self._at_once and (weight(line) <= self._room or not self._running)

    def _request(self, message: JSONRPCRequest, line: bytes | Overlong) -> None:
        key = coerce_request_id(message.id)
        assert isinstance(line, bytes)
        if key in self._running or key in self._held:
            self._refuse(Wrong(INVALID_REQUEST, "A request with this id is still running.", message.id))
        elif message.method == "ping" or (not self._held and self._has_room(line)):
            self._pass(message, key, weight(line))
        elif self._held_size + len(line) > self._most_held:
            told = f"{len(self._running)} requests run and {len(self._held)} wait. Try again once some were answered."
            self._refuse(Wrong(BUSY, f"Too many requests: {told}", message.id))
        else:
            # As it came: what it says takes many times the room.
            self._held[key] = line
            self._held_size += len(line)

    def _pass(self, message: JSONRPCRequest, key: RequestId, size: int) -> None:
        self._running[key] = size
        self._room -= size
        self.ready.append(SessionMessage(message, ServerMessageMetadata(on_request_unanswered=self._unanswered(key))))

    def _unanswered(self, key: RequestId) -> Callable[[], Awaitable[None]]:
        async def settled() -> None:  # a request that was cancelled is never answered
            self.done(key)

        return settled

    def _cancelled(self, message: JSONRPCNotification) -> None:
        asked = as_request_id((message.params or {}).get("requestId"))
        if asked is not None and (line := self._held.pop(coerce_request_id(asked), None)) is not None:
            self._held_size -= len(line)
