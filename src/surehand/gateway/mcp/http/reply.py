"""The reply to one direct call over HTTP: a JSON body, or an event stream if the call takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS

from surehand.jsonrpc.codec import encode_error

if TYPE_CHECKING:
    from mcp_types import ErrorData, RequestId
    from starlette.types import Message, Receive, Send

    from surehand.core.clock import Deadlines

WATCH_DELAY_SECONDS = 0.05
"""Seconds before a task watches whether the client is still connected: most calls have ended by then."""
PING_INTERVAL_SECONDS = 15.0
"""Seconds between comments in an event stream, which keep proxies from closing an idle connection."""
_JSON_HEADERS = [(b"content-type", b"application/json")]
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


class EncodedMessage(NamedTuple):
    """A JSON-RPC message, and the HTTP status that it has unless a stream has begun."""

    body: bytes
    status: int = 200


def encode_error_message(request_id: RequestId, error: ErrorData) -> EncodedMessage:
    """An error response."""
    return EncodedMessage(encode_error(request_id, error), ERROR_CODE_HTTP_STATUS.get(error.code, 200))


class HttpReply:
    """The reply to a modern request, or to a request in a session of the handshake protocol.

    In a session a request runs on if its client disconnects, and its response is always an event stream.
    """

    def __init__(self, receive: Receive, send: Send, deadlines: Deadlines, *, session_id: str | None = None) -> None:
        self._receive = receive
        self._send = send
        self._deadlines = deadlines
        self._is_in_session = session_id is not None
        self._headers = [] if session_id is None else [(MCP_SESSION_ID_HEADER.encode(), session_id.encode("latin-1"))]
        self._task: asyncio.Task[Any] | None = None
        self._watchers: list[asyncio.Task[None]] = []
        # Some clients of the handshake protocol do not accept a JSON body while they are closing.
        self._is_stream = session_id is not None
        self._has_started = False
        self._final_message: EncodedMessage | None = None

    async def send_result_of(self, call: Coroutine[Any, Any, EncodedMessage | None]) -> bool:
        """Run the call and send the message that it returns. False if it returns none, so that nothing was sent."""
        self._task = task = asyncio.current_task()
        assert task is not None
        deadline = self._deadlines.start(WATCH_DELAY_SECONDS, self._start_watching)
        try:
            message = await call
        except asyncio.CancelledError:
            if self._final_message is None or task.cancelling() > 1:
                raise  # not cancelled by `end`
            message = self._final_message
        finally:
            self._task = None
            if self._final_message is not None:
                # Our own cancellation is over. Left in the count, it would look like one from outside.
                task.uncancel()
            deadline.cancel()
            if self._watchers:
                await self._stop_watching()
        if message is not None:
            await self._send_message(message)
        return message is not None

    def end(self, message: EncodedMessage) -> None:
        """Cancel the call, and send this message instead of its result."""
        if self._task is not None and self._final_message is None:
            self._final_message = message
            self._task.cancel()

    async def send_more(self, message: Message) -> None:
        """The `send` for another app that answers the same request and does not know that a stream has begun."""
        if not (self._has_started and message["type"] == "http.response.start"):
            await self._send(message)

    async def _send_message(self, message: EncodedMessage) -> None:
        body = b"event: message\r\ndata: %b\r\n\r\n" % message.body if self._is_stream else message.body
        if not self._has_started:
            kind = _STREAM_HEADERS if self._is_stream else _JSON_HEADERS
            headers = [(b"content-length", b"%d" % len(body)), *kind, *self._headers]
            await self._send({"type": "http.response.start", "status": message.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _start_watching(self) -> None:
        watching = [self._ping()] if self._is_in_session else [self._ping(), self._watch_client()]
        self._watchers = [asyncio.create_task(each, name="mcp: reply") for each in watching]

    async def _stop_watching(self) -> None:
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.end(EncodedMessage(b""))  # which is not sent: the client has disconnected

    async def _ping(self) -> None:
        if not self._is_in_session:
            await asyncio.sleep(PING_INTERVAL_SECONDS - WATCH_DELAY_SECONDS)
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS, *self._headers]})
        self._has_started = True
        self._is_stream = True
        while True:
            # A line that begins with a colon is a comment of an event stream. It keeps proxies from closing the stream.
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(PING_INTERVAL_SECONDS)
