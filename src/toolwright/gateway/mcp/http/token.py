"""Token: whom a request is for, as its bearer token says; requests without a good one are refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import compare_digest
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.responses import JSONResponse

from toolwright.core.errors import DefinitionError
from toolwright.gateway.mcp.seldom import Seldom

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

User: TypeAlias = str | None
Token: TypeAlias = str | Callable[[str], User | Awaitable[User]]
"""The token itself; or a function from the token that was shown to the user whom it stands for, None for nobody."""

PATIENCE = 5.0
"""Seconds in which a token has to be checked."""
log = logging.getLogger("toolwright")
_REFUSED = {"error": "A valid bearer token is needed."}


class Guarded:
    """Lets requests with a good token through to an app, and says in their scope for whom they are."""

    def __init__(self, app: ASGIApp, token: Token) -> None:
        if isinstance(token, str) and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            told = "The token is empty, or no text that a header could hold."
            raise DefinitionError(told, fix="give some letters and digits.")
        self._app, self._token, self._seldom = app, token, Seldom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 401 says no more than that, 503 that nobody could be asked."""
        presented = _presented(scope)
        try:
            good, user = await self._judged(presented) if presented else (False, None)
        except Exception:
            log.exception("A token could not be checked")
            await JSONResponse({"error": "Tokens cannot be checked now."}, 503)(scope, receive, send)
            return
        if not good:
            self._seldom.warn("401", "A request without a good token was refused (401).")
            await JSONResponse(_REFUSED, 401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope if user is None else _known(scope, user), receive, send)

    async def _judged(self, presented: str) -> tuple[bool, User]:
        """Whether it is good, and for whom: the one token is nobody's in particular."""
        if isinstance(self._token, str):
            # Digests, so that not even their length takes a different time.
            return compare_digest(*(sha256(each.encode()).digest() for each in (presented, self._token))), None
        found = self._token(presented)
        user: Any = await asyncio.wait_for(found, PATIENCE) if isawaitable(found) else found
        if user is not None and not isinstance(user, str):
            kind = type(user).__name__
            raise TypeError(f"The function `token` gave a {kind}, and neither a user's name nor None.")
        if user is not None and ("\0" in user or not user.isascii()):
            _check(user)
        return bool(user), user


def _check(user: str) -> None:
    """No store can hold every text; what goes wrong there would look like a fault of the call."""
    if "\0" in user or any("\ud800" <= each <= "\udfff" for each in user):
        raise ValueError("The function `token` gave a name that no store can hold: it has a NUL or a lone surrogate.")


def _presented(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, token = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if kind.lower() == "bearer" else None


def _known(scope: Scope, user: str) -> Scope:
    """Sessions of the older protocol are then their user's alone, and the library refuses them to others."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    # Not the token itself: nobody behind this needs it.
    token = AccessToken(token="", client_id=user, subject=user, scopes=[])
    return {**scope, "user": AuthenticatedUser(token)}
