"""Bodies: what is wrong with a request is seen before the library sees it, and told in words that give nothing away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, JSONRPCNotification, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response

from toolwright.gateway.mcp.caller import user_in
from toolwright.gateway.mcp.http.admission import busy
from toolwright.gateway.mcp.http.arriving import Crowded, TooLarge, header
from toolwright.gateway.mcp.http.sessions import SESSION
from toolwright.gateway.mcp.messages.bulk import too_bulky, weight
from toolwright.gateway.mcp.messages.frames import Wrong, read, write

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from toolwright.gateway.mcp.http.admission import Admission
    from toolwright.gateway.mcp.http.leave import Leave
    from toolwright.gateway.mcp.http.short import Short

_VERSION, _SESSION = MCP_PROTOCOL_VERSION_HEADER.encode(), SESSION.encode()
_OLDER = {None, *(each.encode() for each in HANDSHAKE_PROTOCOL_VERSIONS)}
_CANCELLED = "notifications/cancelled"
_TAKE_UP = b"last-event-id"


class Bodies:
    """Lets requests that are messages, and not too large, through to an app."""

    def __init__(self, app: ASGIApp, admission: Admission, short: Short, leave: Leave) -> None:
        self._app, self._admission, self._short, self._leave = app, admission, short, leave
        self._running: set[tuple[str | None, str, object]] = set()
        """Whose they are, of which session, and under which id."""
        self._parting: set[str] = set()

    def are_busy(self, session: str | None = None) -> bool:
        """Whether messages of a session, or of any, are on their way."""
        return any(session in (None, each) for _, each, _ in self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 400, 413 where it is too large, or 503 where its user has no room for it."""
        try:
            body = await self._admission.arriving.whole(scope, receive)
        except TooLarge:
            await Response("Request body too large", 413)(scope, receive, send)
        except Crowded:
            await busy()(scope, receive, send)
        else:
            if body is not None:
                await self._whole(body, scope, receive, send)

    async def _whole(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            served = self._part if scope["method"] == "DELETE" else self._app
            await served(_from_the_start(scope), _again(b"", receive), send)
        elif (hold := self._admission.hold(scope, weight(body))) is None:
            await busy()(scope, receive, send)
        else:
            with hold:
                await self._message(body, scope, receive, send)

    async def _message(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if header(scope, _VERSION) in _OLDER:
            await self._legacy(body, scope, _again(body, receive), send)
        elif too_bulky(body) or not await self._short.modern(body, scope, receive, send):
            wrong = wrong_with(body, Headers(scope=scope))
            await (self._app if wrong is None else _refused(wrong))(scope, _again(body, receive), send)

    async def _legacy(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """The library would tell what its validation thinks of a message, and loses the first of two with one id."""
        message = read(body)
        if isinstance(message, Wrong):
            await _refused(message)(scope, receive, send)
            return
        session = _session(scope)
        if session is None:
            await self._app(scope, receive, send)
            return
        id = coerce_request_id(message.id) if isinstance(message, JSONRPCRequest) else object()
        key = user_in(scope), session, id  # whose session it is, is found out later
        if key in self._running or session in self._parting:
            await self._refuse(session, message)(scope, receive, send)
            return
        self._running.add(key)
        try:
            await self._in_session(message, session, scope, receive, send)
        finally:
            self._running.discard(key)

    def _refuse(self, session: str, message: Any) -> Response:
        if session in self._parting:
            return _answer(Wrong(INVALID_REQUEST, "Session not found"), 404)
        return _refused(Wrong(INVALID_REQUEST, "A request with this id is still running.", message.id))

    async def _in_session(self, message: Any, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(message, JSONRPCRequest):
            if (rest := await self._short.legacy(message, session, scope, receive, send)) is not None:
                await self._app(rest.scope, receive, rest.send)
            return
        if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._short.cancel((message.params or {}).get("requestId"), session, scope)
        await self._app(scope, receive, send)

    async def _part(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End a session, once all that is on its way in it has arrived or is answered."""
        session = _session(scope)
        if session is None or session in self._parting or self._short.sessions.find(session, scope) is None:
            await self._app(scope, receive, send)
            return
        self._parting.add(session)
        try:
            await self._leave.part(session, self)
            await self._app(scope, receive, send)
        finally:
            self._parting.discard(session)


def _from_the_start(scope: Scope) -> Scope:
    """Streams are not kept, so none can be taken up where it broke off; the library would answer nothing at all."""
    return {**scope, "headers": [each for each in scope["headers"] if each[0] != _TAKE_UP]}


_OF_TASKS = ("tasks/get", "tasks/update", "tasks/cancel")


def wrong_with(body: bytes, headers: Headers) -> Wrong | None:
    """What is wrong with a request of the newer protocol, read as strictly as those of the older one."""
    message = read(body)
    if isinstance(message, Wrong):
        return message
    return _misnamed_task(message, headers) if isinstance(message, JSONRPCRequest) else None


def _misnamed_task(message: JSONRPCRequest, headers: Headers) -> Wrong | None:
    """What is wrong if the header that names the task does not: the library compares those of its own methods only."""
    if message.method not in _OF_TASKS or message.method != headers.get(MCP_METHOD_HEADER):
        return None  # which the library tells
    named = headers.getlist(MCP_NAME_HEADER)
    asked: Any = (message.params or {}).get("taskId")
    if asked is None or (len(named) == 1 and decode_header_value(named[0]) == asked):
        return None
    told = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
    return Wrong(HEADER_MISMATCH, told, message.id)


def _session(scope: Scope) -> str | None:
    named = header(scope, _SESSION)
    return None if named is None else named.decode("latin-1")


def _refused(wrong: Wrong) -> Response:
    return _answer(wrong, 400)


def _answer(wrong: Wrong, status: int) -> Response:
    return Response(write(wrong.message()).rstrip(), status, media_type="application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """What has been received already comes first."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
