"""The message pump: turns the frames of a stdio, SSE or WebSocket connection into messages of the MCP SDK, and back.

It knows which requests wait for a response, so that each of them fails when its response is malformed or when the
connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol

from anyio import ClosedResourceError, EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from surehand.core.errors import NotStarted
from surehand.core.sanitize import MAX_LOG_CHARS, escape_line
from surehand.jsonrpc.codec import ID_SEARCH_BYTES, JsonRpcMessage, MalformedMessage, decode, encode, salvage_id
from surehand.jsonrpc.limits import SERVER_MESSAGE_LIMITS
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_errors import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    ConnectionFailure,
    RequestFailed,
    remember_failure,
    too_large_failure,
)
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd

_MESSAGES_PER_TURN = 64
"""Messages that are handled before other tasks get a turn of the event loop."""
_MAX_LOGGED_ONE_BY_ONE = 20
"""Malformed messages that are all logged. After these, one is logged whenever their number has doubled."""


class FrameTooLong(Exception):
    """The server sent a frame that is longer than the limit. The connection ends."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The server sent a message of more than {max_bytes} bytes, which is not read.")


class FrameChannel(Protocol):
    """Carries frames of one message each."""

    async def receive(self) -> Sequence[bytes]:
        """The next frames; none at the end of the connection. Raises `FrameTooLong`."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send one frame. Raises `OSError` if the connection is closed, `RequestFailed` if only this frame failed."""
        ...

    async def closing_reason(self) -> str:
        """Why the other side has closed the connection."""
        ...


class MessagePump:
    """Messages over a frame channel, and the requests that wait for a response."""

    def __init__(
        self, channel: FrameChannel, *, log: logging.Logger, on_end: OnConnectionEnd, secrets: ConnectionSecrets
    ) -> None:
        self._channel = channel
        self._log = log
        self._secrets = secrets
        self._redact_malformed = secrets.line_redactor()
        self._report_end = on_end
        self._pending: dict[str, RequestId] = {}
        """Ids of requests, by their text: servers echo numbers as text."""
        self._end_reason: str | None = None
        self._is_closing = False
        self.is_open = True
        """Whether requests can be written."""
        self.has_ended = False
        """Whether no more messages will be read."""
        self.malformed_count = 0
        """How many frames were not messages."""

    def streams(self) -> tuple[MessageReadStream, MessageWriteStream]:
        """The streams that the MCP SDK's session reads from and writes to."""
        return _PumpReadStream(self), _PumpWriteStream(self)

    def mark_closing(self) -> None:
        """Stop reporting the end of the connection: this side ends it."""
        self._is_closing = True
        self.is_open = False

    def add_pending(self, request_id: RequestId) -> None:
        """Note a request that was written without `send`."""
        self._pending[str(request_id)] = request_id

    def remove_pending(self, request_id: RequestId) -> None:
        """Note that a request was answered or cancelled."""
        self._pending.pop(str(request_id), None)

    async def send(self, message: JsonRpcMessage) -> None:
        """Write one message, after those before it."""
        if self._end_reason is not None or self._is_closing:
            self._refuse(message)
        self._record_outgoing(message)
        try:
            await self._channel.send(encode(message))
        except OSError:
            self._end(self._secrets.redact(await self._channel.closing_reason()))
            self._refuse(message)
        except RequestFailed:
            if not isinstance(message, JSONRPCRequest):  # the SDK expects its own error where no response is awaited
                raise ClosedResourceError from None
            self.remove_pending(message.id)
            raise

    def _refuse(self, message: JsonRpcMessage) -> NoReturn:
        if not isinstance(message, JSONRPCRequest):
            raise ClosedResourceError
        self.remove_pending(message.id)
        raise NotStarted(self._end_reason or "The connection to the server is closed.")

    def _record_outgoing(self, message: JsonRpcMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self.add_pending(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._pending.pop(str((message.params or {}).get("requestId")), None)

    async def receive(self) -> list[SessionMessage]:
        """The next messages. At the end of the connection these are errors for the requests that still wait."""
        try:
            frames = await self._channel.receive()
        except FrameTooLong as error:
            return self._fail_pending(str(error))
        if not frames:
            return self._fail_pending(await self._channel.closing_reason())
        messages = list(self._decode_frames(frames[:_MESSAGES_PER_TURN]))
        for start in range(_MESSAGES_PER_TURN, len(frames), _MESSAGES_PER_TURN):
            # One chunk may hold a million lines that are not messages: let other tasks run in between.
            await asyncio.sleep(0)
            messages += self._decode_frames(frames[start : start + _MESSAGES_PER_TURN])
        return messages

    def _decode_frames(self, frames: Sequence[bytes]) -> Iterator[SessionMessage]:
        for frame in frames:
            message = decode(frame, SERVER_MESSAGE_LIMITS)
            if isinstance(message, MalformedMessage):
                yield from self._drop(frame, message)
                continue
            if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                self._pending.pop(str(message.id), None)
            yield SessionMessage(message)

    def _drop(self, frame: bytes, malformed: MalformedMessage) -> Iterator[SessionMessage]:
        """Drop a malformed message. If it was meant as a response, the request that waits for it fails."""
        if not frame.strip():
            return
        self.malformed_count += 1
        if self.malformed_count <= _MAX_LOGGED_ONE_BY_ONE or self.malformed_count.bit_count() == 1:
            start = frame[: 4 * (MAX_LOG_CHARS + 1 + self._secrets.max_form_chars)]
            text = self._redact_malformed(start.rstrip().decode(errors="backslashreplace"))
            self._log.warning(
                "Dropped a malformed message (%d so far): %s", self.malformed_count, escape_line(text, MAX_LOG_CHARS)
            )
        request_id = self._pending.pop(_answered_id(frame, malformed), None)
        if request_id is not None:
            yield _error_message(request_id, PARSE_ERROR, malformed_failure(malformed))

    def _end(self, reason: str) -> None:
        if self._end_reason is None:
            self._end_reason = reason
            self.is_open = False
            if not self._is_closing:
                self._report_end(reason)

    def _fail_pending(self, reason: str) -> list[SessionMessage]:
        reason = self._secrets.redact(reason)
        self._end(reason)
        self.has_ended = True
        pending = list(self._pending.values())
        self._pending.clear()
        failure = ConnectionFailure(was_sent=True, is_connection_lost=True, message=reason)
        return [_error_message(request_id, CONNECTION_CLOSED, failure) for request_id in pending]


def malformed_failure(malformed: MalformedMessage) -> ConnectionFailure:
    """What a malformed response means for its request."""
    if malformed.problem == "too_many_values":
        return too_large_failure(f"more than {SERVER_MESSAGE_LIMITS.max_values:,} values")
    return ConnectionFailure(
        was_sent=True, is_connection_lost=False, message="The server's answer is not a JSON-RPC message."
    )


def _answered_id(frame: bytes, malformed: MalformedMessage) -> str:
    """The id, as text, of the request that a malformed message was meant to answer; empty if none is found."""
    if malformed.is_response:
        return str(malformed.id)
    salvaged = salvage_id(frame[:ID_SEARCH_BYTES], frame[-ID_SEARCH_BYTES:])
    return "" if salvaged is None or salvaged.is_request else str(salvaged.id)


def _error_message(request_id: RequestId, code: int, failure: ConnectionFailure) -> SessionMessage:
    error = ErrorData(code=code, message=failure.message, data=remember_failure(failure))
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


class _PumpReadStream(MessageReadStream):
    """Reads frames only when the session asks for a message, so that a flooding server is slowed down."""

    def __init__(self, pump: MessagePump) -> None:
        self._pump = pump
        self._ready: deque[SessionMessage] = deque()
        self._count = 0

    async def receive(self) -> SessionMessage:
        while not self._ready:
            if self.is_closed:
                raise ClosedResourceError
            if self._pump.has_ended:
                raise EndOfStream
            self._ready.extend(await self._pump.receive())
        self._count += 1
        if self._count % _MESSAGES_PER_TURN == 0:
            await asyncio.sleep(0)
        return self._ready.popleft()


class _PumpWriteStream(MessageWriteStream):
    def __init__(self, pump: MessagePump) -> None:
        self._pump = pump

    async def send(self, item: SessionMessage, /) -> None:
        if self.is_closed:
            raise ClosedResourceError
        await self._pump.send(item.message)

    async def aclose(self) -> None:
        self.is_closed = True
        self._pump.is_open = False
