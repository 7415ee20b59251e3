"""Direct calls over HTTP: `tools/call` requests that need nothing from the MCP SDK, answered without it.

`gateway.mcp.direct_call` says which calls these are and what that saves. This file has what is HTTP about them: the
headers, the session, and the reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp_types import PROTOCOL_VERSION_META_KEY, ErrorData, JSONRPCRequest, RequestId

from surehand.core.outcome import Outcome, Pending
from surehand.gateway.mcp.caller import user_in
from surehand.gateway.mcp.direct_call import METHOD, DirectCalls
from surehand.gateway.mcp.http.envelope import has_header_parameters, is_regular_call, regular_headers
from surehand.gateway.mcp.http.reply import EncodedMessage, Reply, encoded_error
from surehand.gateway.mcp.http.running_requests import SERVER_STOPPED, SESSION_ENDED
from surehand.jsonrpc.codec import encode_result

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import Receive, Scope, Send

    from surehand.core.clock import Deadlines
    from surehand.gateway.mcp.http.admission import Admission
    from surehand.gateway.mcp.http.sessions import Session, SessionTable
    from surehand.gateway.mcp.runtime_server import RuntimeServer
    from surehand.gateway.mcp.served import Offered

_CALL = "surehand.direct_call"
MAX_REMEMBERED_SCHEMAS = 10_000


class Handover(NamedTuple):
    """What the MCP SDK has to go on with, and how it sends its response."""

    scope: Scope
    send: Send


class DirectHttpCalls:
    """Answers calls that do not need the MCP SDK."""

    def __init__(self, server: RuntimeServer, admission: Admission, deadlines: Deadlines) -> None:
        self._server = server
        self._admission = admission
        self._deadlines = deadlines
        self.is_running = False
        """Whether the app serves requests: the MCP SDK must not be passed by before its server has started."""
        self._in_sessions: dict[tuple[str, RequestId], tuple[RequestId, Reply]] = {}
        """Running calls by session and request id."""
        self._without_session: dict[Reply, RequestId] = {}
        self._schemas: dict[str, tuple[Any, bool]] = {}

    async def answer(self, message: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request of the protocol without sessions. False if it has to go through the MCP SDK."""
        calls = self._server.direct_calls if self.is_running else None
        if calls is None or not is_regular_call(message, scope):
            return False
        user = user_in(scope)
        offered = calls.match(message["params"], user, modern=True)
        if offered is None or self._has_header_parameters(offered):
            return False
        reply = Reply(receive, send, self._deadlines)
        self._without_session[reply] = message["id"]
        try:
            await reply.send_result_of(_call(calls, message, offered, user))
        finally:
            del self._without_session[reply]
        return True

    def _has_header_parameters(self, offered: Offered) -> bool:
        """Remembered by tool as long as its schema is the same object."""
        name = offered.entry["name"]
        schema = offered.entry["inputSchema"]
        known = self._schemas.get(name)
        if known is None or known[0] is not schema:
            if len(self._schemas) >= MAX_REMEMBERED_SCHEMAS:
                self._schemas.clear()
            known = self._schemas[name] = schema, has_header_parameters(schema)
        return known[1]

    async def answer_in_session(
        self,
        message: JSONRPCRequest,
        session: Session,
        sessions: SessionTable,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> Handover | None:
        """Answer a request of a session. What is returned is for the MCP SDK to do: all of it, or to ask the client."""
        calls = self._server.direct_calls if message.method == METHOD and session.protocol_version else None
        user = user_in(scope)
        offered = None if calls is None else calls.match(message.params or {}, user, modern=False)
        has_room = self._admission.has_room_in_session(session.id)
        if calls is None or offered is None or not has_room or regular_headers(scope) is None:
            return Handover(scope, send)
        key = session.id, coerce_request_id(message.id)
        reply = Reply(receive, send, self._deadlines, session_id=session.id)
        call = _CallInSession(calls, offered, message, session.protocol_version or "", user)
        self._in_sessions[key] = message.id, reply
        try:
            with sessions.in_use(session), self._admission.in_session(session.id):
                is_answered = await reply.send_result_of(call.run())
        finally:
            del self._in_sessions[key]
        return None if is_answered else Handover({**scope, _CALL: call}, reply.send_more)

    def cancel(self, request_id: Any, session_id: str) -> None:
        """Cancel a call of a session for its client."""
        known = as_request_id(request_id)
        found = None if known is None else self._in_sessions.get((session_id, coerce_request_id(known)))
        if found is not None:
            sent_id, reply = found
            reply.end(encoded_error(sent_id, ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")))

    def end_session(self, session_id: str) -> None:
        """End every call of a session."""
        for request_id, reply in [found for (each, _), found in self._in_sessions.items() if each == session_id]:
            reply.end(encoded_error(request_id, SESSION_ENDED)._replace(status=500))

    def end_all(self) -> None:
        """End every call: the server stops."""
        for request_id, reply in list(self._in_sessions.values()):
            reply.end(encoded_error(request_id, SERVER_STOPPED)._replace(status=200))
        for reply, request_id in list(self._without_session.items()):
            reply.end(encoded_error(request_id, SERVER_STOPPED))

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the MCP SDK's server: a call that was made and is pending is not made again, but asked."""
        scope = getattr(ctx.request, "scope", None) or {}
        call: _CallInSession | None = scope.get(_CALL) if ctx.method == METHOD else None
        if call is None or call.pending is None:
            return await call_next(ctx)
        return await call.calls.ask_in_request(ctx, call.pending, call.offered, call.params)


async def _call(calls: DirectCalls, message: dict[str, Any], offered: Offered, user: str | None) -> EncodedMessage:
    request_id = message["id"]
    params = message["params"]
    try:
        outcome = await calls.call(offered, params, user)
        if isinstance(outcome, Pending):
            result = await calls.pending_result(outcome, offered, params, user)
        else:
            result = calls.result(outcome, offered, params["_meta"][PROTOCOL_VERSION_META_KEY])
        return EncodedMessage(encode_result(request_id, result))
    except Exception as error:  # noqa: BLE001 - `error_data` logs what the client is not told
        return encoded_error(request_id, calls.error_data(error))


class _CallInSession:
    """One call of a session."""

    def __init__(
        self, calls: DirectCalls, offered: Offered, message: JSONRPCRequest, version: str, user: str | None
    ) -> None:
        self.calls = calls
        self.offered = offered
        self.params = message.params or {}
        self._request_id = message.id
        self._version = version
        self._user = user
        self.pending: Outcome | None = None
        """The outcome, if the call waits for input."""

    async def run(self) -> EncodedMessage | None:
        """The response; None if the client has to be asked first."""
        try:
            outcome = await self.calls.call(self.offered, self.params, self._user)
            if isinstance(outcome, Pending):
                self.pending = outcome
                return None
            return EncodedMessage(
                encode_result(self._request_id, self.calls.result(outcome, self.offered, self._version))
            )
        except Exception as error:  # noqa: BLE001 - as above
            return encoded_error(self._request_id, self.calls.error_data(error))._replace(status=200)
