"""The endpoint of the ASGI app: validates each request, and has it answered directly or by the MCP SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, ErrorData, JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response

from surehand.gateway.mcp.caller import scope_user
from surehand.gateway.mcp.http.admission import (
    BodyDropped,
    BodyTooLarge,
    busy_response,
    find_header,
    token_busy_response,
)
from surehand.gateway.mcp.http.running_requests import LISTEN_METHOD
from surehand.jsonrpc.codec import (
    JsonRpcMessage,
    MalformedMessage,
    decode,
    encode,
    encode_error,
    message_from_dict,
    parse_frame,
)
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS

if TYPE_CHECKING:
    from mcp.server.subscriptions import ListenHandler
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as AsgiMessage

    from surehand.gateway.mcp.http.admission import Admission
    from surehand.gateway.mcp.http.direct_http_calls import DirectHttpCalls
    from surehand.gateway.mcp.http.running_requests import RunningRequests
    from surehand.gateway.mcp.http.sessions import HttpSession, SessionTable

LAST_RESPONSES_TIMEOUT_SECONDS = 1.0
"""Time for the responses of ended requests to be written before their session ends."""
_POLL_SECONDS = 0.005
_VERSION_HEADER = MCP_PROTOCOL_VERSION_HEADER.encode()
_SESSION_ID_HEADER = MCP_SESSION_ID_HEADER.encode()
_HANDSHAKE_VERSIONS = {None, *(each.encode() for each in HANDSHAKE_PROTOCOL_VERSIONS)}
_CANCELLED_METHOD = "notifications/cancelled"
_LAST_EVENT_ID_HEADER = b"last-event-id"
_TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


class McpEndpoint:
    """The ASGI app behind host check and authentication."""

    def __init__(
        self,
        mcp_sdk: ASGIApp,
        *,
        admission: Admission,
        sessions: SessionTable,
        direct_calls: DirectHttpCalls,
        running_requests: RunningRequests,
        listen_handler: ListenHandler,
    ) -> None:
        self._mcp_sdk = mcp_sdk
        self._admission = admission
        self._sessions = sessions
        self._direct_calls = direct_calls
        self._running_requests = running_requests
        self._listen_handler = listen_handler
        self._in_flight: set[tuple[str | None, str, object]] = set()
        """Messages of sessions: user, session id and request id."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it: 413 if it is too large, 503 if its user has too many in flight."""
        try:
            body = await self._admission.read_body(scope, receive)
        except BodyTooLarge:
            await Response("Request body too large", 413)(scope, receive, send)
        except BodyDropped:
            await busy_response()(scope, receive, send)
        else:
            if body is not None:
                await self._answer(body, scope, receive, send)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            answer = self._delete_session if scope["method"] == "DELETE" else self._open_stream
            await answer(_without_last_event_id(scope), _replay_body(b"", receive), send)
            return
        admitted = self._admission.admit(scope, body)
        if admitted is None:
            await busy_response()(scope, receive, send)
            return
        is_handshake = find_header(scope, _VERSION_HEADER) in _HANDSHAKE_VERSIONS
        answer_message = self._answer_handshake if is_handshake else self._answer_modern
        with admitted:
            await answer_message(body, scope, receive, send)

    # The modern protocol

    async def _answer_modern(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        value = parse_frame(body, CLIENT_MESSAGE_LIMITS)
        if isinstance(value, MalformedMessage):
            await _refuse(value, scope, receive, send)
        elif "id" in value and value.get("method") != LISTEN_METHOD and not self._admission.count_for_token(scope):
            await token_busy_response()(scope, receive, send)
        elif not await self._direct_calls.answer(value, scope, receive, send):
            message = message_from_dict(value)
            if isinstance(message, MalformedMessage):
                problem: MalformedMessage | None = message
            else:
                problem = _task_name_mismatch(message, Headers(scope=scope))
            if problem is not None:
                await _refuse(problem, scope, receive, send)
            else:
                await self._mcp_sdk(scope, _replay_body(body, receive), send)

    # The handshake protocol

    async def _answer_handshake(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        # The SDK would answer with the text of its validation errors, and lose the first of two requests with one id.
        message = decode(body, CLIENT_MESSAGE_LIMITS)
        if isinstance(message, MalformedMessage):
            await _refuse(message, scope, receive, send)
            return
        receive = _replay_body(body, receive)
        session_id = _session_id(scope)
        if session_id is None:
            await self._sessions.open(scope, receive, send)
            return
        request_id = coerce_request_id(message.id) if isinstance(message, JSONRPCRequest) else object()
        key = scope_user(scope), session_id, request_id  # with the user: the session may belong to another user
        if self._sessions.is_ending(session_id):
            await _error_response(None, INVALID_REQUEST, "Session not found", 404)(scope, receive, send)
        elif isinstance(message, JSONRPCRequest) and key in self._in_flight:
            description = "A request with this id is still running."
            await _error_response(message.id, INVALID_REQUEST, description, 400)(scope, receive, send)
        elif isinstance(message, JSONRPCRequest) and not self._admission.count_for_token(scope):
            await token_busy_response()(scope, receive, send)
        else:
            self._in_flight.add(key)
            try:
                await self._answer_in_session(message, session_id, scope, receive, send)
            finally:
                self._in_flight.discard(key)

    async def _answer_in_session(
        self, message: JsonRpcMessage, session_id: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        session = self._sessions.find(session_id, scope)
        if session is None:
            await self._mcp_sdk(scope, receive, send)
            return
        if isinstance(message, JSONRPCRequest):
            handover = await self._direct_calls.answer_in_session(
                message, session, self._sessions, scope, receive, send
            )
            if handover is not None:
                await self._sessions.serve(session, handover.scope, receive, handover.send)
            return
        if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED_METHOD:
            self._direct_calls.cancel((message.params or {}).get("requestId"), session_id)
        await self._sessions.serve(session, scope, receive, send)

    async def _open_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `GET`: the notification stream of a session."""
        session = self._find_session(scope)
        if session is None:
            await self._mcp_sdk(scope, receive, send)
        else:
            await self._sessions.serve(session, scope, receive, send)

    async def _delete_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `DELETE`: end a session after all its messages in flight were delivered or answered."""
        session = self._find_session(scope)
        if session is None:
            await self._mcp_sdk(scope, receive, send)
            return
        session.is_ending = True
        session_id = session.id

        def is_quiet() -> bool:
            # In every round: a direct call may become a request of the SDK that asks the client.
            self._direct_calls.end_session(session_id)
            self._running_requests.end_session(session_id)
            return not any(message_session == session_id for _, message_session, _ in self._in_flight)

        await _wait_until(is_quiet)
        await self._sessions.delete(session, scope, receive, send)

    def _find_session(self, scope: Scope) -> HttpSession | None:
        session_id = _session_id(scope)
        return None if session_id is None else self._sessions.find(session_id, scope)

    async def stop(self) -> None:
        """End all requests, and then the sessions, through which their responses are sent."""

        def is_quiet() -> bool:
            self._listen_handler.close()
            self._direct_calls.end_all()
            self._running_requests.end_all()
            return not self._in_flight

        await _wait_until(is_quiet)
        await self._sessions.end_all()


async def _wait_until(is_true: Callable[[], bool]) -> None:
    deadline = monotonic() + LAST_RESPONSES_TIMEOUT_SECONDS
    while not is_true() and monotonic() < deadline:  # noqa: ASYNC110 - the MCP SDK has no event for it
        await asyncio.sleep(_POLL_SECONDS)


def _without_last_event_id(scope: Scope) -> Scope:
    """The scope without `Last-Event-ID`: streams are not stored, and the SDK would not answer a request to resume."""
    return {**scope, "headers": [each for each in scope["headers"] if each[0] != _LAST_EVENT_ID_HEADER]}


def _task_name_mismatch(message: JsonRpcMessage, headers: Headers) -> MalformedMessage | None:
    """The problem with a request about a task whose header names another task, which the SDK does not check."""
    if not isinstance(message, JSONRPCRequest) or message.method not in _TASK_METHODS:
        return None
    task_id: Any = (message.params or {}).get("taskId")
    names = headers.getlist(MCP_NAME_HEADER)
    if message.method != headers.get(MCP_METHOD_HEADER) or task_id is None:
        return None  # the SDK refuses it
    if len(names) == 1 and decode_header_value(names[0]) == task_id:
        return None
    description = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
    return MalformedMessage("not_a_message", HEADER_MISMATCH, description, message.id)


def _session_id(scope: Scope) -> str | None:
    value = find_header(scope, _SESSION_ID_HEADER)
    return None if value is None else value.decode("latin-1")


async def _refuse(problem: MalformedMessage, scope: Scope, receive: Receive, send: Send) -> None:
    response = Response(encode(problem.as_error()), 400, media_type="application/json")
    await response(scope, receive, send)


def _error_response(request_id: RequestId | None, code: int, message: str, status: int) -> Response:
    return Response(
        encode_error(request_id, ErrorData(code=code, message=message)), status, media_type="application/json"
    )


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more."""
    waiting: list[AsgiMessage] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> AsgiMessage:
        return waiting.pop() if waiting else await receive()

    return receive_again
