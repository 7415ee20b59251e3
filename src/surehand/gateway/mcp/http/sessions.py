"""Sessions of the handshake protocol over HTTP: their owners, the requests that use them, and when they end.

The session manager of the MCP SDK keeps the sessions themselves. This table is kept beside it from what passes through:
the `mcp-session-id` of the response to `initialize`, and the notification that the client is initialized. Sessions are
ended by a `DELETE` request to the manager, as a client would send it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext, authorization_context
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import INTERNAL_ERROR, ErrorData
from starlette.responses import Response

from surehand.core.clock import Deadline, Deadlines
from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.mcp.caller import scope_user
from surehand.gateway.mcp.cancellation import cancel_and_wait
from surehand.gateway.mcp.http.connection import current_connection
from surehand.jsonrpc.codec import encode_error

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_SESSIONS = 1_000
"""Sessions of all users at the same time."""
MAX_SESSIONS_PER_USER = 100
"""Sessions of one user, or of all anonymous clients at one network address."""
SESSION_IDLE_TIMEOUT_SECONDS = 30 * 60.0
"""A session is ended after this time without requests."""
_SESSION_ID_HEADER = MCP_SESSION_ID_HEADER.encode()


class HttpSession:
    """One session of the handshake protocol."""

    def __init__(self, asgi_user: Any, quota_owner: str) -> None:
        self.id = ""
        """Known once the request that opens it is answered."""
        self.quota_owner = quota_owner
        self.asgi_user = asgi_user
        """The `user` of the ASGI scope that opened it."""
        self.owner = _session_owner(asgi_user)
        self.protocol_version: str | None = None
        """Known once the client has sent `notifications/initialized`."""
        self.is_ending = False
        self.requests_in_flight = 0
        self.idle_since = 0.0
        """When its last request ended, on the clock of the event loop."""
        self.idle_deadline: Deadline | None = None


class SessionTable:
    """All open sessions."""

    def __init__(self, session_manager: ASGIApp, deadlines: Deadlines, on_end: Callable[[str], None]) -> None:
        self._session_manager = session_manager
        """The session manager of the MCP SDK."""
        self._deadlines = deadlines
        self._on_end = on_end
        self._sessions: dict[str, HttpSession] = {}
        self._quota: Quota[HttpSession] = Quota(QuotaLimits(per_user=MAX_SESSIONS_PER_USER))
        self._ending_tasks: set[asyncio.Task[None]] = set()

    def find(self, session_id: str, scope: Scope) -> HttpSession | None:
        """The session, if it has not ended and belongs to the user of the request."""
        # Other users are answered 404, as for a session that does not exist: the id alone must not be of use.
        session = self._sessions.get(session_id)
        if session is None or session.is_ending or session.owner != _session_owner(scope.get("user")):
            return None
        return session

    def is_ending(self, session_id: str) -> bool:
        """Whether the session is about to end, so that no request is accepted in it."""
        session = self._sessions.get(session_id)
        return session is not None and session.is_ending

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request without a session on, which opens one if it is `initialize`."""
        quota_owner = _quota_owner(scope)
        if not self._quota.has_room(quota_owner) and scope_user(scope) is None:
            self._end_longest_idle(quota_owner)
        if not self._quota.has_room(quota_owner):
            error = ErrorData(code=INTERNAL_ERROR, message="Too many open sessions")
            refusal = Response(encode_error(None, error), 503, media_type="application/json")
            await refusal(scope, receive, send)
            return
        session = HttpSession(scope.get("user"), quota_owner)
        self._quota.acquire(session, quota_owner)

        async def send_and_register(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._register(session, message)
            await send(message)

        try:
            with self.in_use(session):
                await self._session_manager(scope, receive, send_and_register)
        except BaseException:
            self._forget(session)  # the manager has dropped it as well
            raise
        if not session.id:
            self._forget(session)

    def _end_longest_idle(self, quota_owner: str) -> None:
        """Make room for an anonymous client: one that opens ever more sessions then loses its own, and no other's.

        A client whose session has ended is answered 404, and opens a new one.
        """
        idle = [
            session
            for session in self._sessions.values()
            if session.quota_owner == quota_owner and not session.requests_in_flight and not session.is_ending
        ]
        if idle:
            session = min(idle, key=lambda each: each.idle_since)
            self._quota.release(session)
            self._expire(session)

    def _register(self, session: HttpSession, response_start: Message) -> None:
        for name, value in response_start["headers"]:
            if name.lower() == _SESSION_ID_HEADER:
                session.id = value.decode("latin-1")
                self._sessions[session.id] = session

    async def serve(self, session: HttpSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of a session on. A session that the manager does not know any more is forgotten."""
        is_unknown = False

        async def send_and_check(message: Message) -> None:
            nonlocal is_unknown
            is_unknown = is_unknown or message.get("status") == 404
            await send(message)

        with self.in_use(session):
            await self._session_manager(scope, receive, send_and_check)
        if is_unknown:
            self._forget(session)

    @contextmanager
    def in_use(self, session: HttpSession) -> Iterator[None]:
        """The session is not idle as long as the context is entered."""
        session.requests_in_flight += 1
        if session.idle_deadline is not None:
            session.idle_deadline.cancel()
            session.idle_deadline = None
        try:
            yield
        finally:
            session.requests_in_flight -= 1
            session.idle_since = asyncio.get_running_loop().time()
            if not session.requests_in_flight and session.id in self._sessions:
                expire = partial(self._expire, session)
                session.idle_deadline = self._deadlines.start(SESSION_IDLE_TIMEOUT_SECONDS, expire)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the MCP SDK's server that records the protocol version of each session."""
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized" and ctx.request is not None:
            session = self._sessions.get(ctx.request.headers.get(MCP_SESSION_ID_HEADER, ""))
            if session is not None:
                session.protocol_version = ctx.protocol_version
        return result

    def _expire(self, session: HttpSession) -> None:
        session.is_ending = True
        ending = asyncio.get_running_loop().create_task(self.end(session), name="mcp: end idle session")
        self._ending_tasks.add(ending)
        ending.add_done_callback(self._ending_tasks.discard)

    async def end(self, session: HttpSession) -> None:
        """End a session in the name of its owner."""
        session.is_ending = True
        try:
            await self._session_manager(_delete_request_scope(session), _receive_empty_body, _ignore_response)
        finally:
            self._forget(session)

    async def delete(self, session: HttpSession, scope: Scope, receive: Receive, send: Send) -> None:
        """End a session with the `DELETE` request of its client."""
        try:
            await self._session_manager(scope, receive, send)
        finally:
            self._forget(session)

    async def end_all(self) -> None:
        """End every session."""
        for session in list(self._sessions.values()):
            await self.end(session)
        await cancel_and_wait(*self._ending_tasks)

    def _forget(self, session: HttpSession) -> None:
        self._quota.release(session)
        if session.idle_deadline is not None:
            session.idle_deadline.cancel()
            session.idle_deadline = None
        if self._sessions.pop(session.id, None) is not None:
            self._on_end(session.id)


def _session_owner(asgi_user: Any) -> AuthorizationContext | None:
    return authorization_context(asgi_user) if isinstance(asgi_user, AuthenticatedUser) else None


def _quota_owner(scope: Scope) -> str:
    """The user, or the network address of an anonymous client; a NUL tells it from the names of users."""
    user = scope_user(scope)
    if user is not None:
        return user
    connection = current_connection()
    if connection is not None:
        return f"\0{connection.client_address}"
    client = scope.get("client")
    return f"\0{client[0]}" if client else "\0"


def _delete_request_scope(session: HttpSession) -> Scope:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "DELETE",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": [(_SESSION_ID_HEADER, session.id.encode("latin-1"))],
    }
    return scope if session.asgi_user is None else {**scope, "user": session.asgi_user}


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore_response(_: Message) -> None:
    """Drop the response to the `DELETE` request of `end`."""
