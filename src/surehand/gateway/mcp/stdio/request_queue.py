"""The request queue of one stdio connection: which requests run, which wait for others, and which are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, RequestId

from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.mcp.request_limits import SERVER_BUSY_CODE
from surehand.gateway.mcp.stdio.tool_call_request import ToolCallRequest, decode_line
from surehand.jsonrpc.codec import MalformedMessage
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS, estimate_memory_bytes

if TYPE_CHECKING:
    from surehand.gateway.mcp.stdio.limits import StdioLimits
    from surehand.jsonrpc.codec import OverlongFrame

_ONLY_CLIENT = None
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
        handle_directly: Callable[[ToolCallRequest | JSONRPCNotification], bool],
    ) -> None:
        """A message for which `take_directly` returns true is not put into `ready`."""
        self._refuse = refuse
        self._on_answered = on_answered
        self._handle_directly = handle_directly
        self._max_waiting_bytes = limits.max_waiting_bytes
        self._in_flight: Quota[RequestId] = Quota(
            QuotaLimits(anonymous=limits.max_in_flight_requests, bytes_per_user=limits.max_in_flight_bytes)
        )
        self._waiting_lines: dict[RequestId, bytes] = {}
        self._waiting_bytes = 0
        self.ready: deque[SessionMessage] = deque()
        """Messages for the MCP SDK."""

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or waits."""
        return not (len(self._in_flight) or self._waiting_lines or self.ready)

    def add(self, line: bytes | OverlongFrame) -> None:
        """Decode a line, and start, queue or refuse its message."""
        message = decode_line(line)
        if isinstance(message, (ToolCallRequest, JSONRPCRequest)):
            assert isinstance(line, bytes)
            self._add_request(message, line)
        elif isinstance(message, MalformedMessage):
            self._add_malformed(message)
        elif not (isinstance(message, JSONRPCNotification) and self._handle_cancellation(message)):
            self.ready.append(SessionMessage(message))

    def release(self, request_id: RequestId) -> None:
        """A request was answered or cancelled: start waiting requests while there is room."""
        self._in_flight.release(coerce_request_id(request_id))
        while self._waiting_lines:
            line = next(iter(self._waiting_lines.values()))
            size = _estimated_size(line)
            if not self._in_flight.has_room(_ONLY_CLIENT, size):
                break
            del self._waiting_lines[next(iter(self._waiting_lines))]
            self._waiting_bytes -= len(line)
            message = decode_line(line)
            assert isinstance(message, (ToolCallRequest, JSONRPCRequest))
            self._start(message, coerce_request_id(message.id), size)
        self._on_answered()

    def _add_malformed(self, malformed: MalformedMessage) -> None:
        if malformed.is_response:
            self.ready.append(SessionMessage(malformed.as_error()))
        else:
            self._refuse(malformed.as_error())

    def _add_request(self, message: ToolCallRequest | JSONRPCRequest, line: bytes) -> None:
        key = coerce_request_id(message.id)
        size = _estimated_size(line)
        if key in self._in_flight or key in self._waiting_lines:
            self._refuse_request(message, INVALID_REQUEST, "A request with this id is still running.")
        elif (not self._waiting_lines and self._in_flight.has_room(_ONLY_CLIENT, size)) or _is_ping(message):
            self._start(message, key, size)
        elif self._waiting_bytes + len(line) > self._max_waiting_bytes:
            counts = f"{len(self._in_flight)} requests run and {len(self._waiting_lines)} wait"
            description = f"Too many requests: {counts}. Try again once some were answered."
            self._refuse_request(message, SERVER_BUSY_CODE, description)
        else:
            # As bytes: the parsed message takes many times the memory.
            self._waiting_lines[key] = line
            self._waiting_bytes += len(line)

    def _refuse_request(self, message: ToolCallRequest | JSONRPCRequest, code: int, description: str) -> None:
        self._refuse(JSONRPCError(jsonrpc="2.0", id=message.id, error=ErrorData(code=code, message=description)))

    def _start(self, message: ToolCallRequest | JSONRPCRequest, key: RequestId, size: int) -> None:
        self._in_flight.acquire(key, _ONLY_CLIENT, size)
        if isinstance(message, ToolCallRequest):
            if self._handle_directly(message):
                return
            message = message.to_sdk_request()
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
            line = self._waiting_lines.pop(coerce_request_id(cancelled_id), b"")
            self._waiting_bytes -= len(line)
        return self._handle_directly(message)


def _estimated_size(line: bytes) -> int:
    return estimate_memory_bytes(line, CLIENT_MESSAGE_LIMITS.max_values)


def _is_ping(message: ToolCallRequest | JSONRPCRequest) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == "ping"
