"""Admission: how much of this server one user may have at one time. What others need is left to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import ErrorData, JSONRPCError
from starlette.responses import Response

from toolwright.core.quotas import Quota, QuotaLimits
from toolwright.gateway.mcp.caller import user_in
from toolwright.gateway.mcp.http.arriving import Arriving
from toolwright.gateway.mcp.messages.allowance import AT_ONCE, BUSY, ROOM
from toolwright.gateway.mcp.messages.frames import write

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from starlette.types import Scope

SESSIONS_OF_USER = 100
"""Sessions of the older protocol that one user may have."""
_HELD = "toolwright.held"


class Hold:
    """One request, which counts as long as anybody holds it: its client, or what runs for it."""

    def __init__(self, quota: Quota[Hold], user: str | None, size: int) -> None:
        self._quota, self._user, self._size = quota, user, size
        self._times = 0

    def __enter__(self) -> None:
        self._times += 1
        self._quota.acquire(self, self._user, self._size)

    def __exit__(self, *_: object) -> None:
        self._times -= 1
        if not self._times:
            self._quota.release(self)


def held(scope: Scope) -> Hold | None:
    """That of a request."""
    found: Hold | None = scope.get(_HELD)
    return found


class Admission:
    """Lets requests run, once their bodies have come, as long as their user has room."""

    def __init__(self, *, at_once: int = AT_ONCE, room: int = ROOM) -> None:
        self.arriving = Arriving(room)
        self._quota: Quota[Hold] = Quota(QuotaLimits(per_user=at_once, bytes_per_user=room))

    def hold(self, scope: Scope, size: int) -> Hold | None:
        """What a request of so many bytes counts as; None if there is no room for it."""
        user = user_in(scope)
        if not self._quota.has_room(user, size):
            return None
        hold = scope[_HELD] = Hold(self._quota, user, size)
        return hold


def busy() -> Response:
    """What is said to whoever has no room."""
    told = "Too many requests, or too many bytes of them, run for this user. Try again once some were answered."
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=BUSY, message=told))
    return Response(write(error).rstrip(), 503, media_type="application/json")


class OwnedSessions(StreamableHTTPSessionManager):
    """The library's sessions, of which one user may not have all."""

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        if requestor is not None and self._number_of(requestor) >= SESSIONS_OF_USER:
            return None
        return super()._admit_session(requestor)

    def _number_of(self, requestor: Any) -> int:
        return sum(each == requestor for each in self._session_owners.values())
