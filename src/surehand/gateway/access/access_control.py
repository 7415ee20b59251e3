"""AccessControl: the ASGI middleware that every request passes before a route sees it.

It authenticates the request, counts it and limits its body. `SecurityHeaders` adds headers to the responses. Hosts and
origins are checked before, by `gateway/mcp/http/host_check.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from surehand.gateway.access.answers import AnswerPolicy
from surehand.gateway.access.identity import OPERATOR, Identity
from surehand.gateway.access.paced_starts import PacedStarts
from surehand.gateway.access.refusal_audit import RefusalAudit
from surehand.gateway.access.request_limits import RequestLimiter
from surehand.gateway.access.stream_access import AUTHENTICATION_KEY
from surehand.gateway.access.tokens import Authenticate
from surehand.gateway.access.unverified_bodies import UnverifiedBodies
from surehand.gateway.mcp.caller import COUNT_REQUEST_KEY, MAY_ANSWER_KEY
from surehand.gateway.mcp.log_throttle import LogThrottle
from surehand.gateway.problems import Problem, problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("surehand")
IDENTITY_KEY = "surehand.identity"
"""The key of the ASGI scope under which routes find the identity."""
AUDITED_STATUSES = (401, 403)
PUBLIC_PATHS = frozenset({"/healthz", "/readyz"})
SIGNED_PATHS = re.compile(r"/api/webhooks/[^/]+/answers")
"""Routes whose requests are signed instead of having a token: they verify the signature themselves."""
MAX_SIGNED_BODY_BYTES = 1 << 20
"""A signature covers the body, so the body is read before anything is known about the sender."""
_UNVERIFIED_SENDER = Identity("webhook", frozenset())
AUTHENTICATION_TIMEOUT_SECONDS = 5.0
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"no-store")
EVENT_STREAMS = re.compile(r"/api/events|/api/(?:calls|runs|spaces)/[^/]+/events")
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")


class SecurityHeaders:
    """Adds the security headers to every response of an app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; everything that is no HTTP request goes on unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                names = {name for name, _ in headers}
                added = [each for each in (*SECURITY_HEADERS, _NO_STORE) if each[0] not in names]
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AccessControl:
    """Lets authenticated requests within the limits through to an app, with their identity in the scope."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate | None,
        limiter: RequestLimiter,
        mcp_app: ASGIApp,
        answers: AnswerPolicy,
        is_started: Callable[[], bool],
        refusals: RefusalAudit,
    ) -> None:
        self._app = app
        self._mcp_app = mcp_app
        self._answers = answers
        self._authenticate = authenticate
        self._limiter = limiter
        self._is_started = is_started
        self._refusals = refusals
        self._starts = PacedStarts()
        self._unverified_bodies = UnverifiedBodies()
        self._log_throttle = LogThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with 401, 403, 413, 415, 429 or 503."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in PUBLIC_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            self._check_started()
            is_signed = SIGNED_PATHS.fullmatch(path) is not None
            max_bytes = self._limiter.limits.body_bytes
            if is_signed:
                max_bytes = min(max_bytes, MAX_SIGNED_BODY_BYTES)
            self._check_framing(scope, max_bytes)
            identity = _UNVERIFIED_SENDER if is_signed else await self._identify(scope)
            scope[IDENTITY_KEY] = identity
            self._limiter.check_rate(identity)
            receive = _limit_body(receive, max_bytes)
            if is_signed:
                receive = await self._unverified_bodies.read(scope, receive)
            if path.rstrip("/") == "/mcp":
                await self._serve_mcp(identity, scope, receive, send)
            elif scope["method"] == "GET" and EVENT_STREAMS.fullmatch(path):  # its route counts it as a stream
                scope[AUTHENTICATION_KEY] = partial(self._identify, scope)
                await self._app(scope, receive, send)
            else:
                with self._limiter.count_request(identity):
                    await self._starts.wait()
                    await self._app(scope, receive, send)
        except Problem as error:
            if error.status_code in AUDITED_STATUSES:
                await self._refusals.record(scope, error.code, scope.get(IDENTITY_KEY))
            response = problem_response(error.status_code, error.code, error.detail, error.headers)
            await response(scope, receive, send)

    def _check_started(self) -> None:
        if not self._is_started():
            problem = "The gateway is not running: the lifespan of its app was not entered, or has ended."
            raise Problem("unavailable", problem, retry_after=1)

    def _check_framing(self, scope: Scope, max_bytes: int) -> None:
        """Refuse what is too large or no JSON before anything is read. A form of another site cannot send JSON."""
        headers = dict(reversed(scope["headers"]))  # of a header that is repeated, the first counts
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and (len(length) > 18 or int(length) > max_bytes):
            raise _body_too_large(max_bytes)
        has_body = length != b"0" or b"transfer-encoding" in headers
        content_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        is_json = content_type == b"application/json" or content_type.endswith(b"+json")
        if has_body and scope["method"] in _METHODS_WITH_BODY and not is_json:
            raise Problem(
                "unsupported_media_type", "The body of a request must be JSON: send `Content-Type: application/json`."
            )
        if headers.get(b"sec-fetch-site") == b"cross-site" and b"origin" not in headers:
            is_navigation = headers.get(b"sec-fetch-mode") == b"navigate" and scope["method"] == "GET"
            if not is_navigation:
                raise Problem("denied", "Requests of other sites are not allowed.")

    async def _identify(self, scope: Scope) -> Identity:
        if self._authenticate is None:
            return OPERATOR
        try:
            async with asyncio.timeout(AUTHENTICATION_TIMEOUT_SECONDS):
                identity: Any = await self._authenticate(HTTPConnection(scope))
        except Exception as error:
            log.exception("The auth function failed")
            raise Problem("unavailable", "Tokens cannot be checked now.", retry_after=1) from error
        if identity is None:
            self._log_throttle.warn("401", "A request without a valid token was refused (401).")
            raise _Unauthorized
        if not isinstance(identity, Identity):
            log.error("The auth function returned %s instead of an Identity or None.", type(identity).__name__)
            raise Problem("unavailable", "Tokens cannot be checked now.", retry_after=1)
        return identity

    async def _serve_mcp(self, identity: Identity, scope: Scope, receive: Receive, send: Send) -> None:
        if not identity.has_all_tools:
            raise Problem("denied", "MCP serves all tools, and this identity may use only some: it needs tools:*.")
        # The origin was checked, and the response gets its CORS headers, outside: twice, a browser refuses them.
        inner = {**scope, "headers": [each for each in scope["headers"] if each[0] != b"origin"]}
        if identity.concurrent is not None:
            inner[COUNT_REQUEST_KEY] = partial(self._limiter.try_count_mcp_request, identity)
        inner[MAY_ANSWER_KEY] = partial(self._answers.may_answer, identity)
        if identity.user is not None:
            inner["user"] = _mcp_user(identity.user)
        await self._mcp_app(inner, receive, send)


class _Unauthorized(Problem):
    def __init__(self) -> None:
        super().__init__("unauthorized", "A valid bearer token is needed.")
        self.headers = {"WWW-Authenticate": "Bearer"}


def _mcp_user(user: str) -> object:
    """The user of a request, as the MCP SDK represents it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # only requests of /mcp need it
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token="", client_id=user, subject=user, scopes=[]))


def _body_too_large(limit: int) -> Problem:
    return Problem("too_large", f"The body of a request may have {limit} bytes.")


def _limit_body(receive: Receive, limit: int) -> Receive:
    received = 0

    async def receive_within_limit() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise _body_too_large(limit)
        return message

    return receive_within_limit


def refuse_host(refusals: RefusalAudit, status: int, detail: str) -> ASGIApp:
    """The response to a request for an unknown host, or from an unknown origin, which is written to the audit."""
    code = "misdirected" if status == 421 else "denied"
    response = problem_response(status, code, detail)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await refusals.record(scope, code)
        await response(scope, receive, send)

    return respond


def identity_of(connection: HTTPConnection) -> Identity:
    """The identity of a request, which the access control has stored in its ASGI scope."""
    identity = connection.scope.get(IDENTITY_KEY)
    if not isinstance(identity, Identity):
        raise HTTPException(500, "The request did not pass the access control of the gateway.")
    return identity
