"""Request queue: which requests of one connection run, which wait for others to be answered, and which are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, RequestId

from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.mcp.request_limits import SERVER_BUSY_CODE
from surehand.gateway.mcp.stdio.tool_call import ToolCall, decode_line
from surehand.jsonrpc.codec import Malformed
from surehand.jsonrpc.limits import FROM_CLIENT, estimated_memory

if TYPE_CHECKING:
    from surehand.gateway.mcp.stdio.limits import StdioLimits
    from surehand.jsonrpc.codec import OverlongFrame

_CLIENT = None
"""There is one client per connection, so that its quota needs no name for it."""


class RequestQueue:
    """Decodes lines. Requests wait while too many others run; everything else is ready at once.

    Responses to our own requests and cancellations must not wait behind requests: they may be what makes room.
    """

    def __init__(
        self,
        limits: StdioLimits,
        *,
        refuse: Callable[[JSONRPCError], None],
        on_answered: Callable[[], None],
        take_directly: Callable[[ToolCall | JSONRPCNotification], bool],
    ) -> None:
        """A message for which `take_directly` returns true is not put into `ready`."""
        self._refuse = refuse
        self._on_answered = on_answered
        self._take_directly = take_directly
        self._max_waiting_bytes = limits.max_waiting_bytes
        self._in_flight: Quota[RequestId] = Quota(
            QuotaLimits(anonymous=limits.max_in_flight_requests, bytes_per_user=limits.max_in_flight_bytes)
        )
        self._waiting: dict[RequestId, bytes] = {}
        self._waiting_bytes = 0
        self.ready: deque[SessionMessage] = deque()
        """Messages for the MCP SDK."""

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or waits."""
        return not (len(self._in_flight) or self._waiting or self.ready)

    def add(self, line: bytes | OverlongFrame) -> None:
        """Decode a line, and start, queue or refuse its message."""
        message = decode_line(line)
        if isinstance(message, (ToolCall, JSONRPCRequest)):
            assert isinstance(line, bytes)
            self._add_request(message, line)
        elif isinstance(message, Malformed):
            self._add_malformed(message)
        elif not (isinstance(message, JSONRPCNotification) and self._handle_cancellation(message)):
            self.ready.append(SessionMessage(message))

    def release(self, request_id: RequestId) -> None:
        """A request was answered or cancelled: start those that wait, as far as there is room."""
        self._in_flight.release(coerce_request_id(request_id))
        while self._waiting:
            line = next(iter(self._waiting.values()))
            size = _size(line)
            if not self._in_flight.has_room(_CLIENT, size):
                break
            del self._waiting[next(iter(self._waiting))]
            self._waiting_bytes -= len(line)
            message = decode_line(line)
            assert isinstance(message, (ToolCall, JSONRPCRequest))
            self._start(message, coerce_request_id(message.id), size)
        self._on_answered()

    def _add_malformed(self, malformed: Malformed) -> None:
        if malformed.is_response:
            self.ready.append(SessionMessage(malformed.as_error()))
        else:
            self._refuse(malformed.as_error())

    def _add_request(self, message: ToolCall | JSONRPCRequest, line: bytes) -> None:
        key = coerce_request_id(message.id)
        size = _size(line)
        if key in self._in_flight or key in self._waiting:
            self._refuse_request(message, INVALID_REQUEST, "A request with this id is still running.")
        elif (not self._waiting and self._in_flight.has_room(_CLIENT, size)) or _is_ping(message):
            self._start(message, key, size)
        elif self._waiting_bytes + len(line) > self._max_waiting_bytes:
            counts = f"{len(self._in_flight)} requests run and {len(self._waiting)} wait"
            description = f"Too many requests: {counts}. Try again once some were answered."
            self._refuse_request(message, SERVER_BUSY_CODE, description)
        else:
            # As bytes: the parsed message takes many times the memory.
            self._waiting[key] = line
            self._waiting_bytes += len(line)

    def _refuse_request(self, message: ToolCall | JSONRPCRequest, code: int, description: str) -> None:
        self._refuse(JSONRPCError(jsonrpc="2.0", id=message.id, error=ErrorData(code=code, message=description)))

    def _start(self, message: ToolCall | JSONRPCRequest, key: RequestId, size: int) -> None:
        self._in_flight.acquire(key, _CLIENT, size)
        if isinstance(message, ToolCall):
            if self._take_directly(message):
                return
            message = message.as_request()
        metadata = ServerMessageMetadata(on_request_unanswered=self._release_unanswered(key))
        self.ready.append(SessionMessage(message, metadata))

    def _release_unanswered(self, key: RequestId) -> Callable[[], Awaitable[None]]:
        async def release() -> None:  # a cancelled request gets no response that could release it
            self.release(key)

        return release

    def _handle_cancellation(self, message: JSONRPCNotification) -> bool:
        """Drop a waiting request that is cancelled. True if the SDK need not see the notification."""
        if message.method != "notifications/cancelled":
            return False
        cancelled_id = as_request_id((message.params or {}).get("requestId"))
        if cancelled_id is not None:
            line = self._waiting.pop(coerce_request_id(cancelled_id), b"")
            self._waiting_bytes -= len(line)
        return self._take_directly(message)


def _size(line: bytes) -> int:
    return estimated_memory(line, FROM_CLIENT.max_values)


def _is_ping(message: ToolCall | JSONRPCRequest) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == "ping"
