"""The outermost ASGI app, between uvicorn and the MCP app: refuses ambiguous requests, and reports their progress.

`FramingCheck` is what is left of it for an app that is mounted in another server.

`connection.ClientConnection` sets its deadlines by these reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import PlainTextResponse

from surehand.gateway.mcp.http.connection import ClientConnection, copy_connection_context, current_connection

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_HEADERS = 200
_HTTP_VERSIONS = ("1.0", "1.1")
_FRAMING_HEADERS = frozenset({b"host", b"content-length", b"transfer-encoding", b"upgrade"})

_is_in_request: ContextVar[bool] = ContextVar("is_in_request", default=False)


class RequestMonitor:
    """Reports to each connection when its requests begin, receive their bodies, respond and end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request in a context of its own."""
        connection = current_connection()
        if scope["type"] != "http" or connection is None:
            await self._app(scope, receive, send)
            return
        exchange = HttpExchange(connection, receive, send)
        if _is_in_request.get():
            # uvicorn starts a pipelined request from within the one before it, whose context its task has inherited.
            running = exchange.run(self._app, scope)
            await asyncio.get_running_loop().create_task(running, context=copy_connection_context(connection))
        else:
            await exchange.run(self._app, scope)


class FramingCheck:
    """Refuses a request that has two lengths, where the app runs in another server than ours.

    A request with `Content-Length` and `Transfer-Encoding` may be an attempt to smuggle a second one past a proxy that
    believes in the other header (RFC 9112, 6.1). h11, unlike httptools, lets it through and keeps the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 400 and close its connection."""
        # Our own server has a `RequestMonitor`, which checks this and more before the app is called.
        if scope["type"] != "http" or current_connection() is not None or not _has_two_lengths(scope["headers"]):
            await self._app(scope, receive, send)
            return
        problem = "A request must not have both a content-length and a transfer-encoding."
        await PlainTextResponse(problem, 400, headers={"connection": "close"})(scope, receive, send)


def _has_two_lengths(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    names = {name for name, _ in headers}
    return b"content-length" in names and b"transfer-encoding" in names


class HttpExchange:
    """One request and its response."""

    def __init__(self, connection: ClientConnection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._is_body_complete = False
        self._closes_connection = False
        self._has_ended = False

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Let the app answer the request, unless it is ambiguous."""
        _is_in_request.set(True)
        # A copy: uvicorn appends the trailers of a chunked body to its own list. And httptools leaves white space
        # after a value, which HTTP does not count as a part of it.
        scope["headers"] = headers = [(name, value.rstrip(b" \t")) for name, value in scope["headers"]]
        framing = _parse_framing(headers, scope["http_version"])
        self._is_body_complete = framing.body_bytes == 0
        # Only the parser knows where a chunked body ends, so the bytes after it are not parsed as another request.
        is_chunked = framing.body_bytes is None
        self._closes_connection = is_chunked or framing.has_upgrade or framing.problem is not None
        self._connection.begin_request(body_bytes=framing.body_bytes)
        try:
            if framing.problem is not None:
                refusal = PlainTextResponse(framing.problem.description, framing.problem.status)
                await refusal(scope, self.receive, self.send)
            else:
                await app(scope, self.receive, self.send)
        except asyncio.CancelledError:
            pass  # the server stops and the connection is closed, so no response can be sent and none is missing
        finally:
            self._end()

    def _end(self) -> None:
        """Report the end once: an app may run on after its response, when the next request has already begun."""
        if not self._has_ended:
            self._has_ended = True
            self._connection.end_request()

    async def receive(self) -> Message:
        """The next part of the body; after the last part, the `http.disconnect` message."""
        if self._is_body_complete:
            return await self._receive()
        self._connection.await_body()
        message = await self._receive_body()
        if message["type"] != "http.request" or not message.get("more_body"):
            self._is_body_complete = True
            self._connection.body_complete()
        return message

    async def _receive_body(self) -> Message:
        message = await self._receive()
        self._connection.body_received(len(message.get("body", b"")))
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            if self._closes_connection:
                message = _with_connection_close(message)
            await self._send(message)
            self._connection.response_started()
            return
        if message.get("more_body"):
            await self._send(message)
            return
        if not self._is_body_complete:
            await self._send({**message, "more_body": True})
            await self._drop_body()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)
        self._end()

    async def _drop_body(self) -> None:
        """Read the rest of the body. Closed before that, the connection would be reset, and the response lost."""
        self._connection.await_refused_body()
        while not self._is_body_complete:
            message = await self._receive_body()
            self._is_body_complete = message["type"] != "http.request" or not message.get("more_body")
        self._connection.body_complete()


class _RequestProblem(NamedTuple):
    description: str
    status: int = 400


class _RequestFraming(NamedTuple):
    body_bytes: int | None
    """The length of the body; None if it is chunked."""
    has_upgrade: bool
    problem: _RequestProblem | None


def _parse_framing(headers: list[tuple[bytes, bytes]], http_version: str) -> _RequestFraming:
    """How the request is delimited. A problem is what a proxy in front of this server might parse differently.

    httptools refuses most of it itself: contradicting lengths, a length beside chunks, folded lines, bare line feeds.
    """
    framing_headers = [(name, value) for name, value in headers if name in _FRAMING_HEADERS]
    names = [name for name, _ in framing_headers]
    values = dict(framing_headers)
    has_upgrade = b"upgrade" in values
    is_chunked = b"transfer-encoding" in values
    body_bytes = None if is_chunked else int(values.get(b"content-length", b"0"))
    problem: _RequestProblem | None = None
    if len(headers) > MAX_HEADERS:
        problem = _RequestProblem(f"The request has more than {MAX_HEADERS} headers.", 431)
    elif http_version not in _HTTP_VERSIONS:
        problem = _RequestProblem("This server speaks HTTP/1.1.", 505)
    elif len(values) != len(framing_headers):
        problem = _RequestProblem(f"The {_first_repeated(names)} header is repeated.")
    elif b"host" not in values and http_version == "1.1":
        problem = _RequestProblem("The host header is missing.")
    elif is_chunked and not _is_plain_chunked(values, http_version):
        problem = _RequestProblem("The transfer-encoding must be chunked, in HTTP/1.1 and without a content-length.")
    elif has_upgrade and body_bytes != 0:
        # httptools takes whatever follows the head of such a request for another protocol.
        problem = _RequestProblem("A request that has a body cannot upgrade the connection.")
    return _RequestFraming(0 if has_upgrade else body_bytes, has_upgrade, problem)


def _is_plain_chunked(values: dict[bytes, bytes], http_version: str) -> bool:
    is_chunked = values[b"transfer-encoding"].lower() == b"chunked"
    return is_chunked and http_version == "1.1" and b"content-length" not in values


def _first_repeated(names: list[bytes]) -> str:
    return next(name for name in names if names.count(name) > 1).decode()


def _with_connection_close(message: Message) -> Message:
    headers = [each for each in message.get("headers", ()) if each[0].lower() != b"connection"]
    return {**message, "headers": [*headers, (b"connection", b"close")]}
