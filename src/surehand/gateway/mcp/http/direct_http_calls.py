"""Direct calls over HTTP: `tools/call` requests that need nothing from the MCP SDK, answered without it.

`gateway.mcp.direct_calls` says which calls these are and what time that saves. This file has the part that is specific
to HTTP: the headers, the session, and the reply. A request with any irregular header or metadata goes to the SDK, which
answers what is wrong with it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, REQUEST_CANCELLED, check_accept_headers
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    X_MCP_HEADER_KEY,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, ErrorData, JSONRPCRequest, RequestId
from mcp_types.methods import validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import Request

from surehand.core.outcome import Outcome, Pending
from surehand.gateway.mcp.caller import MAY_ANSWER_KEY, MayAnswer, scope_user
from surehand.gateway.mcp.direct_calls import TOOLS_CALL_METHOD, DirectCalls
from surehand.gateway.mcp.http.reply import EncodedMessage, HttpReply, encode_error_message
from surehand.gateway.mcp.http.running_requests import SERVER_STOPPED, SESSION_ENDED
from surehand.jsonrpc.codec import encode_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import Receive, Scope, Send

    from surehand.core.clock import Deadlines
    from surehand.gateway.mcp.http.admission import Admission
    from surehand.gateway.mcp.http.sessions import HttpSession, SessionTable
    from surehand.gateway.mcp.runtime_server import RuntimeServer
    from surehand.gateway.mcp.served_runtime import ServedTool

MAX_CACHED_METADATA_BYTES = 4096
"""Bytes of the largest metadata whose validation is cached. A client sends the same metadata with each request."""
MAX_CACHED_SCHEMAS = 10_000
_CALL_SCOPE_KEY = "surehand.direct_call"
_VERSION_HEADER = MCP_PROTOCOL_VERSION_HEADER.encode()
_METHOD_HEADER = MCP_METHOD_HEADER.encode()
_NAME_HEADER = MCP_NAME_HEADER.encode()
_PARAM_HEADER_PREFIX = MCP_PARAM_HEADER_PREFIX.lower().encode()
_SESSION_ID_HEADER = MCP_SESSION_ID_HEADER.encode()
_MODERN_VERSIONS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_TOOLS_CALL_HEADER = TOOLS_CALL_METHOD.encode()
_MESSAGE_KEYS = {"jsonrpc", "id", "method", "params"}
_PLAIN_HEADER_TEXT = re.compile(r"[0-9A-Za-z_./-]+")


class SdkHandover(NamedTuple):
    """A request that the MCP SDK has to answer, and the `send` for its response."""

    scope: Scope
    send: Send


class DirectHttpCalls:
    """Answers calls that do not need the MCP SDK."""

    def __init__(self, server: RuntimeServer, admission: Admission, deadlines: Deadlines) -> None:
        self._server = server
        self._admission = admission
        self._deadlines = deadlines
        self.is_running = False
        """Whether the app serves requests. Before the SDK's server has started, every request has to go to the SDK."""
        self._calls_in_sessions: dict[tuple[str, RequestId], tuple[RequestId, HttpReply]] = {}
        """Running calls by session and request id."""
        self._calls_without_session: dict[HttpReply, RequestId] = {}
        self._header_parameters_by_tool: dict[str, tuple[Any, bool]] = {}

    async def answer(self, message: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request of the modern protocol. False if the MCP SDK has to answer it."""
        direct_calls = self._server.direct_calls if self.is_running else None
        if direct_calls is None or not is_regular_call(message, scope):
            return False
        user = scope_user(scope)
        served_tool = direct_calls.find_direct_tool(message["params"], user, is_modern=True)
        if served_tool is None or self._has_header_parameters(served_tool):
            return False
        reply = HttpReply(receive, send, self._deadlines)
        self._calls_without_session[reply] = message["id"]
        try:
            await reply.send_result_of(_run_call(direct_calls, message, served_tool, user, scope.get(MAY_ANSWER_KEY)))
        finally:
            del self._calls_without_session[reply]
        return True

    def _has_header_parameters(self, served_tool: ServedTool) -> bool:
        """Whether a tool has header parameters; cached as long as its schema is the same object."""
        name = served_tool.entry["name"]
        schema = served_tool.entry["inputSchema"]
        cached = self._header_parameters_by_tool.get(name)
        if cached is not None and cached[0] is schema:
            return cached[1]
        if len(self._header_parameters_by_tool) >= MAX_CACHED_SCHEMAS:
            self._header_parameters_by_tool.clear()
        has_parameters = has_header_parameters(schema)
        self._header_parameters_by_tool[name] = schema, has_parameters
        return has_parameters

    async def answer_in_session(
        self,
        message: JSONRPCRequest,
        session: HttpSession,
        sessions: SessionTable,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> SdkHandover | None:
        """Answer a request of a session. Returns a handover if the MCP SDK has to answer it, or to ask the client."""
        is_call = message.method == TOOLS_CALL_METHOD and bool(session.protocol_version)
        direct_calls = self._server.direct_calls if is_call else None
        if direct_calls is None:
            return SdkHandover(scope, send)
        user = scope_user(scope)
        served_tool = direct_calls.find_direct_tool(message.params or {}, user, is_modern=False)
        has_room = self._admission.has_room_in_session(session.id)
        if served_tool is None or not has_room or regular_headers(scope) is None:
            return SdkHandover(scope, send)
        key = session.id, coerce_request_id(message.id)
        reply = HttpReply(receive, send, self._deadlines, session_id=session.id)
        call = _CallInSession(direct_calls, served_tool, message, session.protocol_version or "", user)
        self._calls_in_sessions[key] = message.id, reply
        try:
            with sessions.in_use(session), self._admission.count_in_session(session.id):
                is_answered = await reply.send_result_of(call.run())
        finally:
            del self._calls_in_sessions[key]
        return None if is_answered else SdkHandover({**scope, _CALL_SCOPE_KEY: call}, reply.send_more)

    def cancel(self, request_id: Any, session_id: str) -> None:
        """Cancel a call of a session, as its client has asked with `notifications/cancelled`."""
        valid_id = as_request_id(request_id)
        call = None if valid_id is None else self._calls_in_sessions.get((session_id, coerce_request_id(valid_id)))
        if call is not None:
            sent_id, reply = call
            reply.end(encode_error_message(sent_id, ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")))

    def end_session(self, session_id: str) -> None:
        """End every call of a session."""
        calls = [call for (call_session, _), call in self._calls_in_sessions.items() if call_session == session_id]
        for request_id, reply in calls:
            reply.end(encode_error_message(request_id, SESSION_ENDED)._replace(status=500))

    def end_all(self) -> None:
        """End every call, because the server stops."""
        for request_id, reply in list(self._calls_in_sessions.values()):
            reply.end(encode_error_message(request_id, SERVER_STOPPED)._replace(status=200))
        for reply, request_id in list(self._calls_without_session.items()):
            reply.end(encode_error_message(request_id, SERVER_STOPPED))

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the MCP SDK's server that asks about a pending direct call, instead of calling again."""
        scope = getattr(ctx.request, "scope", None) or {}
        call: _CallInSession | None = scope.get(_CALL_SCOPE_KEY) if ctx.method == TOOLS_CALL_METHOD else None
        if call is None or call.pending_outcome is None:
            return await call_next(ctx)
        return await call.direct_calls.ask_in_request(ctx, call.pending_outcome, call.served_tool, call.params)


async def _run_call(
    direct_calls: DirectCalls,
    message: dict[str, Any],
    served_tool: ServedTool,
    user: str | None,
    may_answer: MayAnswer | None,
) -> EncodedMessage:
    request_id = message["id"]
    params = message["params"]
    try:
        outcome = await direct_calls.call(served_tool, params, user)
        if isinstance(outcome, Pending):
            result = await direct_calls.pending_result(outcome, served_tool, params, user, may_answer)
        else:
            result = direct_calls.render_result(outcome, served_tool, params["_meta"][PROTOCOL_VERSION_META_KEY])
        return EncodedMessage(encode_result(request_id, result))
    except Exception as error:  # noqa: BLE001 - `error_data` logs unexpected exceptions
        return encode_error_message(request_id, direct_calls.error_data(error))


class _CallInSession:
    """One call of a session."""

    def __init__(
        self,
        direct_calls: DirectCalls,
        served_tool: ServedTool,
        message: JSONRPCRequest,
        protocol_version: str,
        user: str | None,
    ) -> None:
        self.direct_calls = direct_calls
        self.served_tool = served_tool
        self.params = message.params or {}
        self._request_id = message.id
        self._protocol_version = protocol_version
        self._user = user
        self.pending_outcome: Outcome | None = None
        """The outcome, if the call is pending."""

    async def run(self) -> EncodedMessage | None:
        """Run the call. Returns None if it is pending, so that the client has to be asked first."""
        try:
            outcome = await self.direct_calls.call(self.served_tool, self.params, self._user)
            if isinstance(outcome, Pending):
                self.pending_outcome = outcome
                return None
            result = self.direct_calls.render_result(outcome, self.served_tool, self._protocol_version)
            return EncodedMessage(encode_result(self._request_id, result))
        except Exception as error:  # noqa: BLE001 - `error_data` logs unexpected exceptions
            return encode_error_message(self._request_id, self.direct_calls.error_data(error))._replace(status=200)


# Regular headers and metadata


def regular_headers(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers of a JSON request that accepts any response; None if one is repeated or has parameters."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if len(headers) != len(scope["headers"]) or headers.get(b"content-type") != b"application/json":
        return None
    return headers if _accepts_any_response(headers.get(b"accept", b"")) else None


@lru_cache(maxsize=64)
def _accepts_any_response(accept: bytes) -> bool:
    return all(check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})))


def is_regular_call(message: dict[str, Any], scope: Scope) -> bool:
    """Whether a message is a modern `tools/call` request whose headers agree with its body."""
    headers = regular_headers(scope)
    if headers is None or headers.get(_METHOD_HEADER) != _TOOLS_CALL_HEADER or _SESSION_ID_HEADER in headers:
        return False
    if b"\n" + _PARAM_HEADER_PREFIX in b"\n".join(headers):
        return False
    if not _is_tools_call(message) or not _headers_agree(message, headers):
        return False
    return _is_valid_metadata(message["params"]["_meta"])


def _is_tools_call(message: dict[str, Any]) -> bool:
    if message.keys() != _MESSAGE_KEYS or message["jsonrpc"] != "2.0" or message["method"] != TOOLS_CALL_METHOD:
        return False
    return type(message["id"]) in (int, str)


def _headers_agree(message: dict[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether the headers name the same version and tool as the body, verbatim or in the encoding of MCP."""
    params = message["params"]
    meta = params.get("_meta") if type(params) is dict else None
    if type(meta) is dict and CLIENT_CAPABILITIES_META_KEY in meta:
        version = headers.get(_VERSION_HEADER)
        is_verbatim = version == _as_header(meta.get(PROTOCOL_VERSION_META_KEY))
        if is_verbatim and headers.get(_NAME_HEADER) == _as_header(params.get("name")):
            return version in _MODERN_VERSIONS
    routing = {
        name.decode(): headers[name].decode("latin-1")
        for name in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER)
        if name in headers
    }
    return isinstance(classify_inbound_request(message, headers=routing), InboundModernRoute)


def _as_header(text: Any) -> bytes:
    """A text as it is in a header if it needs no encoding; otherwise bytes that no header has."""
    return text.encode() if type(text) is str and _PLAIN_HEADER_TEXT.fullmatch(text) else b"\0"


def _is_valid_metadata(meta: dict[str, Any]) -> bool:
    try:
        encoded = to_json(meta)
    except ValueError:
        return False
    return len(encoded) <= MAX_CACHED_METADATA_BYTES and _is_valid_encoded_metadata(encoded)


@lru_cache(maxsize=256)
def _is_valid_encoded_metadata(encoded: bytes) -> bool:
    meta = from_json(encoded)
    try:
        validate_client_request(TOOLS_CALL_METHOD, meta[PROTOCOL_VERSION_META_KEY], {"name": "any", "_meta": meta})
    except ValidationError:
        return False
    return True


def has_header_parameters(schema: Any) -> bool:
    """Whether a tool's schema asks for arguments to be repeated in `Mcp-Param-*` headers."""
    return X_MCP_HEADER_KEY.encode() in to_json(schema, fallback=str)
