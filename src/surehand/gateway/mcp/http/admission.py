"""Admission of HTTP requests: limits how many requests, and how many bytes, a user or a session has in flight.

It also reads the bodies, because a body that is still arriving takes memory before its request is admitted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import Response

from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.mcp.caller import COUNT_REQUEST_KEY, scope_user
from surehand.gateway.mcp.request_limits import (
    MAX_IN_FLIGHT_BYTES,
    MAX_IN_FLIGHT_REQUESTS,
    MAX_MESSAGE_BYTES,
    SERVER_BUSY_CODE,
)
from surehand.jsonrpc.codec import encode_error
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS, estimate_memory_bytes

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import Receive, Scope

_ADMITTED_SCOPE_KEY = "surehand.admitted"
_MAX_CONTENT_LENGTH_DIGITS = 19


class BodyTooLarge(Exception):
    """The body has more bytes than a message may have."""


class BodyDropped(Exception):
    """The body arrived so slowly that its memory was needed for other requests of the same user."""


class AdmittedRequest:
    """A request in flight. It counts until its client has its response and its handler has ended."""

    def __init__(self, quota: Quota[AdmittedRequest], user: str | None, size: int) -> None:
        self._quota = quota
        self._user = user
        self._size = size
        self._holders = 0
        self._token_count = ExitStack()

    def count_for_token(self, count: AbstractContextManager[None]) -> None:
        """Count it against the limit of its token too, for as long as it is in flight."""
        self._token_count.enter_context(count)

    def __enter__(self) -> None:
        self._holders += 1
        self._quota.acquire(self, self._user, self._size)

    def __exit__(self, *_: object) -> None:
        self._holders -= 1
        if not self._holders:
            self._quota.release(self)
            self._token_count.close()


class Admission:
    """Reads the bodies of requests and admits those for which their user and their session have room."""

    def __init__(
        self,
        *,
        max_requests: int = MAX_IN_FLIGHT_REQUESTS,
        max_requests_per_session: int = MAX_IN_FLIGHT_REQUESTS,
        max_bytes: int = MAX_IN_FLIGHT_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_requests_per_session = max_requests_per_session
        self._quota_by_user: Quota[AdmittedRequest] = Quota(
            QuotaLimits(per_user=max_requests, bytes_per_user=max_bytes)
        )
        self._quota_by_session: Quota[object] = Quota(QuotaLimits(per_user=max_requests_per_session))
        """Counted by session id. A client may close the stream of a response, and its request runs on."""
        self._arriving_bodies: dict[object, tuple[str | None, bytearray]] = {}
        """Bodies that have arrived in part, the oldest first, and their users."""

    def admit(self, scope: Scope, body: bytes) -> AdmittedRequest | None:
        """A request with this body; None if its user has too many, or too many bytes, in flight."""
        user = scope_user(scope)
        size = estimate_memory_bytes(body, CLIENT_MESSAGE_LIMITS.max_values)
        if not self._quota_by_user.has_room(user, size):
            return None
        admitted = scope[_ADMITTED_SCOPE_KEY] = AdmittedRequest(self._quota_by_user, user, size)
        return admitted

    def count_for_token(self, scope: Scope) -> bool:
        """Count an admitted request against the limit of its token, if it has one; False if it is one too many.

        Answers and notifications of a client do not count: a request that is in flight may need them to end.
        """
        count = scope.get(COUNT_REQUEST_KEY)
        if count is None:
            return True
        counted = count()
        if counted is not None:
            scope[_ADMITTED_SCOPE_KEY].count_for_token(counted)
        return counted is not None

    def has_room_in_session(self, session_id: str) -> bool:
        """Whether one more request may run in a session."""
        return self._quota_by_session.has_room(session_id)

    def count_in_session(self, session_id: str) -> _CountedSessionRequest:
        """Count one request of a session as long as the context is entered."""
        return _CountedSessionRequest(self._quota_by_session, session_id)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the MCP SDK's server that counts the requests of sessions while their handlers run."""
        if ctx.request is None or ctx.request_id is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await call_next(ctx)
        session_id = ctx.request.headers.get(MCP_SESSION_ID_HEADER)
        with ctx.request.scope.get(_ADMITTED_SCOPE_KEY) or nullcontext():
            if session_id is None:
                return await call_next(ctx)
            if not self.has_room_in_session(session_id):
                limit = self._max_requests_per_session
                message = f"Too many requests: {limit} run. Try again once one was answered."
                raise MCPError(code=SERVER_BUSY_CODE, message=message)
            with self.count_in_session(session_id):
                return await call_next(ctx)

    async def read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body of a request; None if the client has disconnected. Raises `BodyTooLarge` or `BodyDropped`."""
        length = find_header(scope, b"content-length") or b""
        if length.isdigit() and (len(length) > _MAX_CONTENT_LENGTH_DIGITS or int(length) > MAX_MESSAGE_BYTES):
            raise BodyTooLarge
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            return await self._read_rest(body, scope_user(scope), receive)
        if len(body) > MAX_MESSAGE_BYTES:
            raise BodyTooLarge
        return body if message["type"] == "http.request" else None

    async def _read_rest(self, start: bytes, user: str | None, receive: Receive) -> bytes | None:
        key = object()
        self._arriving_bodies[key] = user, bytearray()
        try:
            self._append(key, start)
            while True:
                self._drop_oldest(user)
                message = await receive()
                if message["type"] != "http.request":
                    return None
                self._append(key, message.get("body", b""))
                if not message.get("more_body"):
                    return bytes(self._arriving_bodies[key][1])
        finally:
            self._arriving_bodies.pop(key, None)

    def _append(self, key: object, part: bytes) -> None:
        if key not in self._arriving_bodies:
            raise BodyDropped
        _, body = self._arriving_bodies[key]
        body += part
        if len(body) > MAX_MESSAGE_BYTES:
            raise BodyTooLarge

    def _drop_oldest(self, user: str | None) -> None:
        """Drop the oldest bodies of a user while all have too many bytes.

        Memory is not reserved for the announced length: a client can announce any length and send nothing.
        """
        sizes = {key: len(body) for key, (owner, body) in self._arriving_bodies.items() if owner == user}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= self._max_bytes:
                break
            total -= size
            del self._arriving_bodies[key]


class _CountedSessionRequest:
    """One request of a session, counted while the context is entered."""

    def __init__(self, quota: Quota[object], session_id: str) -> None:
        self._quota = quota
        self._session_id = session_id

    def __enter__(self) -> None:
        self._quota.acquire(self, self._session_id)

    def __exit__(self, *_: object) -> None:
        self._quota.release(self)


def busy_response() -> Response:
    """The response to a request for which its user has no room."""
    message = "Too many requests, or too many bytes of them, run for this user. Try again once some were answered."
    error = ErrorData(code=SERVER_BUSY_CODE, message=message)
    return Response(encode_error(None, error), 503, media_type="application/json")


def token_busy_response() -> Response:
    """The response to a request of a token that has as many in flight as it may."""
    message = "This token has as many requests in flight as it may. Try again once one was answered."
    body = encode_error(None, ErrorData(code=SERVER_BUSY_CODE, message=message))
    return Response(body, 429, {"Retry-After": "1"}, media_type="application/json")


def find_header(scope: Scope, header_name: bytes) -> bytes | None:
    """The first header with this name, which must be in lower case."""
    for name, value in scope["headers"]:
        if name == header_name:
            return value  # type: ignore[no-any-return]  # the ASGI scope is untyped
    return None
