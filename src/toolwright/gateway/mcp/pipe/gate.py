"""Gate: which requests of one connection run, which wait for their turn, and which are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCNotification, JSONRPCRequest, RequestId

from toolwright.gateway.mcp.messages.allowance import AT_ONCE, BUSY, ROOM
from toolwright.gateway.mcp.messages.bulk import weight
from toolwright.gateway.mcp.messages.frames import Call, Wrong, seen

if TYPE_CHECKING:
    from toolwright.gateway.mcp.messages.frames import Overlong

HELD = 8 << 20
"""Bytes of requests that wait for their turn."""


class Gate:
    """Lets requests through while there is room, and all else always.

    Answers to our own questions and cancellations never wait behind requests: it may be these that make room.
    """

    def __init__(
        self,
        refuse: Callable[[Wrong], None],
        settled: Callable[[], None],
        taken: Callable[[Call | JSONRPCNotification], bool],
        *,
        at_once: int = AT_ONCE,
        room: int = ROOM,
        held: int = HELD,
    ) -> None:
        """What is `taken` is not handed on."""
        self._refuse, self._settled, self._taken = refuse, settled, taken
        self._at_once, self._most_held = at_once, held
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
        message = seen(line)
        if isinstance(message, (Call, JSONRPCRequest)):
            assert isinstance(line, bytes)
            self._request(message, line)
        elif isinstance(message, Wrong):
            self._wrong(message)
        elif not (isinstance(message, JSONRPCNotification) and self._told(message)):
            self.ready.append(SessionMessage(message))

    def done(self, request: RequestId) -> None:
        """A request was answered: another may have its turn."""
        self._room += self._running.pop(coerce_request_id(request), 0)
        while self._held and self._has_room(size := weight(next(iter(self._held.values())))):
            line = self._held.pop(next(iter(self._held)))
            self._held_size -= len(line)
            message = seen(line)
            assert isinstance(message, (Call, JSONRPCRequest))
            self._pass(message, coerce_request_id(message.id), size)
        self._settled()

    def _has_room(self, size: int) -> bool:
        return len(self._running) < self._at_once and (size <= self._room or not self._running)

    def _wrong(self, wrong: Wrong) -> None:
        if wrong.is_answer:
            self.ready.append(SessionMessage(wrong.message()))
        else:
            self._refuse(wrong)

    def _request(self, message: Call | JSONRPCRequest, line: bytes) -> None:
        key, size = coerce_request_id(message.id), weight(line)
        if key in self._running or key in self._held:
            self._refuse(Wrong(INVALID_REQUEST, "A request with this id is still running.", message.id))
        elif (not self._held and self._has_room(size)) or _is_ping(message):
            self._pass(message, key, size)
        elif self._held_size + len(line) > self._most_held:
            told = f"{len(self._running)} requests run and {len(self._held)} wait. Try again once some were answered."
            self._refuse(Wrong(BUSY, f"Too many requests: {told}", message.id))
        else:
            # As it came: what it says takes many times the room.
            self._held[key] = line
            self._held_size += len(line)

    def _pass(self, message: Call | JSONRPCRequest, key: RequestId, size: int) -> None:
        self._running[key] = size
        self._room -= size
        if isinstance(message, Call):
            if self._taken(message):
                return
            message = message.message()
        self.ready.append(SessionMessage(message, ServerMessageMetadata(on_request_unanswered=self._unanswered(key))))

    def _unanswered(self, key: RequestId) -> Callable[[], Awaitable[None]]:
        async def settled() -> None:  # a request that was cancelled is never answered
            self.done(key)

        return settled

    def _told(self, message: JSONRPCNotification) -> bool:
        """Whether a notification was taken."""
        if message.method != "notifications/cancelled":
            return False
        asked = as_request_id((message.params or {}).get("requestId"))
        if asked is not None and (line := self._held.pop(coerce_request_id(asked), None)) is not None:
            self._held_size -= len(line)
        return self._taken(message)


def _is_ping(message: Call | JSONRPCRequest) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == "ping"
