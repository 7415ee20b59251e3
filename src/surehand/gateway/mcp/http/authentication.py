"""Authentication: the user of a request by its bearer token. Requests without a valid token are refused."""

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
"""Time for the function to check a token."""
log = logging.getLogger("surehand")
_UNAUTHORIZED_BODY = {"error": "A valid bearer token is needed."}


class BearerAuthentication:
    """Lets requests with a valid token through to an app, with their user in the scope."""

    def __init__(self, app: ASGIApp, token: TokenOrVerifier) -> None:
        if isinstance(token, str) and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            problem = "The token is empty, or has characters that a header cannot hold."
            raise DefinitionError(problem, fix="give some letters and digits.")
        self._app = app
        self._token = token
        self._log_throttle = LogThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 401 without a reason, 503 if the token could not be checked."""
        presented = _presented_token(scope)
        try:
            is_valid, user = await self._verify_token(presented) if presented else (False, None)
        except Exception:
            log.exception("A token could not be checked")
            await JSONResponse({"error": "Tokens cannot be checked now."}, 503)(scope, receive, send)
            return
        if not is_valid:
            self._log_throttle.warn("401", "A request without a good token was refused (401).")
            await JSONResponse(_UNAUTHORIZED_BODY, 401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope if user is None else _with_user(scope, user), receive, send)

    async def _verify_token(self, presented: str) -> tuple[bool, UserName]:
        """Whether the token is valid, and its user. A token that was given as text belongs to no user."""
        if isinstance(self._token, str):
            # Digests, so that not even the length of the token can be measured.
            return compare_digest(*(sha256(each.encode()).digest() for each in (presented, self._token))), None
        found = self._token(presented)
        user: Any = await asyncio.wait_for(found, TOKEN_CHECK_TIMEOUT_SECONDS) if isawaitable(found) else found
        if user is not None and not isinstance(user, str):
            kind = type(user).__name__
            raise TypeError(f"The function `token` gave a {kind}, and neither a user's name nor None.")
        if user is not None and ("\0" in user or not user.isascii()):
            _validate_user_name(user)
        return bool(user), user


def _validate_user_name(user: str) -> None:
    """Stores cannot hold every text. What fails there would look like a failure of the call."""
    if "\0" in user or any("\ud800" <= each <= "\udfff" for each in user):
        raise ValueError("The function `token` gave a name that no store can hold: it has a NUL or a lone surrogate.")


def _presented_token(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, token = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if kind.lower() == "bearer" else None


def _with_user(scope: Scope, user: str) -> Scope:
    """The scope with its user. Sessions then belong to that user alone, and the MCP SDK refuses them to others."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    # Without the token itself: no code behind this needs it.
    token = AccessToken(token="", client_id=user, subject=user, scopes=[])
    return {**scope, "user": AuthenticatedUser(token)}
