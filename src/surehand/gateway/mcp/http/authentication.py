"""Bearer authentication of HTTP requests: finds the user of a token, and refuses requests without a valid one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import compare_digest
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.responses import JSONResponse

from surehand.core.errors import DefinitionError
from surehand.gateway.mcp.log_throttle import LogThrottle

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

UserName: TypeAlias = str | None
TokenOrVerifier: TypeAlias = str | Callable[[str], UserName | Awaitable[UserName]]
"""The token itself; or a function from a presented token to its user, or to None if the token is not valid."""

TOKEN_CHECK_TIMEOUT_SECONDS = 5.0
"""Time limit of the function that checks tokens."""
log = logging.getLogger("surehand")
_UNAUTHORIZED_BODY = {"error": "A valid bearer token is needed."}


class BearerAuthentication:
    """Lets requests with a valid token through to an app, with their user in the scope."""

    def __init__(self, app: ASGIApp, token: TokenOrVerifier) -> None:
        if isinstance(token, str) and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            problem = "The token is empty, or has characters that an HTTP header cannot contain."
            raise DefinitionError(problem, fix="use letters and digits.")
        self._app = app
        self._token = token
        self._log_throttle = LogThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 401 without a reason, 503 if the token could not be checked."""
        presented = _presented_token(scope)
        try:
            is_valid, user = await self._verify_token(presented) if presented else (False, None)
        except Exception:
            log.exception("The token function failed")
            await JSONResponse({"error": "Tokens cannot be checked now."}, 503)(scope, receive, send)
            return
        if not is_valid:
            self._log_throttle.warn("401", "A request without a valid token was refused (401).")
            await JSONResponse(_UNAUTHORIZED_BODY, 401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope if user is None else _with_user(scope, user), receive, send)

    async def _verify_token(self, presented: str) -> tuple[bool, UserName]:
        """Whether the token is valid, and its user. A token that was configured as a string has no user."""
        if isinstance(self._token, str):
            # Digests, so that not even the length of the token can be measured by the time that the comparison takes.
            presented_digest = sha256(presented.encode()).digest()
            return compare_digest(presented_digest, sha256(self._token.encode()).digest()), None
        user: Any = self._token(presented)
        if isawaitable(user):
            user = await asyncio.wait_for(user, TOKEN_CHECK_TIMEOUT_SECONDS)
        if user is not None and not isinstance(user, str):
            kind = type(user).__name__
            raise TypeError(f"The function `token` must return a user's name or None, got {kind}.")
        if user is not None and ("\0" in user or not user.isascii()):
            _validate_user_name(user)
        return bool(user), user


def _validate_user_name(user: str) -> None:
    """Reject names that databases cannot store: there the error would look like a failure of the call."""
    if "\0" in user or any("\ud800" <= character <= "\udfff" for character in user):
        problem = "The function `token` returned a name with a NUL or a lone surrogate, which no store can save."
        raise ValueError(problem)


def _presented_token(scope: Scope) -> str | None:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _with_user(scope: Scope, user: str) -> Scope:
    """The scope with its user. The MCP SDK then refuses the sessions of this user to others."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    # Without the token itself, which no code behind this needs.
    token = AccessToken(token="", client_id=user, subject=user, scopes=[])
    return {**scope, "user": AuthenticatedUser(token)}
