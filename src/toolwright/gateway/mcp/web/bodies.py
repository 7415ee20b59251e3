"""Bodies: what is wrong with a request is seen before the library sees it, and told in words that give nothing away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, JSONRPCRequest, RequestId
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response

from toolwright.gateway.mcp.pipe.frames import Wrong, read, write

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION = "mcp-session-id"
_TAKE_UP = b"last-event-id"


class Bodies:
    """Lets requests that are messages through to an app. They come whole: how large they are was seen before."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[tuple[str, RequestId]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with 400."""
        if scope["method"] != "POST":
            await self._app(_from_the_start(scope), receive, send)
            return
        came, headers = await receive(), Headers(scope=scope)
        if headers.get(MCP_PROTOCOL_VERSION_HEADER) in (None, *HANDSHAKE_PROTOCOL_VERSIONS):
            await self._legacy(came, headers, scope, _again(came, receive), send)
        elif (wrong := _misnamed_task(came.get("body", b""), headers)) is not None:
            await _refused(wrong)(scope, receive, send)
        else:
            await self._app(scope, _again(came, receive), send)

    async def _legacy(self, came: Message, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        """The library would tell what its validation thinks of a message, and loses the first of two with one id."""
        message = read(came.get("body", b""))
        if isinstance(message, Wrong):
            await _refused(message)(scope, receive, send)
            return
        session = headers.get(SESSION)
        if session is None or not isinstance(message, JSONRPCRequest):
            await self._app(scope, receive, send)
            return
        key = session, coerce_request_id(message.id)
        if key in self._running:
            wrong = Wrong(INVALID_REQUEST, "A request with this id is still running.", message.id)
            await _refused(wrong)(scope, receive, send)
            return
        self._running.add(key)
        try:
            await self._app(scope, receive, send)
        finally:
            self._running.discard(key)


def _from_the_start(scope: Scope) -> Scope:
    """Streams are not kept, so none can be taken up where it broke off; the library would answer nothing at all."""
    return {**scope, "headers": [each for each in scope["headers"] if each[0] != _TAKE_UP]}


_OF_TASKS = ("tasks/get", "tasks/update", "tasks/cancel")


def _misnamed_task(body: bytes, headers: Headers) -> Wrong | None:
    """What is wrong if the header that names the task does not: the library compares those of its own methods only."""
    if headers.get(MCP_METHOD_HEADER) not in _OF_TASKS:
        return None
    message = read(body)
    if not isinstance(message, JSONRPCRequest) or message.method != headers.get(MCP_METHOD_HEADER):
        return None  # which the library tells
    named = headers.getlist(MCP_NAME_HEADER)
    asked: Any = (message.params or {}).get("taskId")
    if asked is None or (len(named) == 1 and decode_header_value(named[0]) == asked):
        return None
    told = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
    return Wrong(HEADER_MISMATCH, told, message.id)


def _refused(wrong: Wrong) -> Response:
    return Response(write(wrong.message()).rstrip(), 400, media_type="application/json")


def _again(came: Message, receive: Receive) -> Receive:
    """What has been received already comes first."""
    waiting = [came]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
