"""StreamAccess: whether the client of an open event stream may still read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from surehand.gateway.access.identity import Identity
from surehand.gateway.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from surehand.core.clock import Clock

AUTHENTICATION_KEY = "surehand.authentication"
"""The key of the ASGI scope under which the access control leaves the check of the token of a stream."""
RECHECK_SECONDS = 5.0
"""How long a token that was valid is taken for valid, unless it is known when it expires."""


class StreamAccess:
    """The right of a client to read an event stream; asked before each batch of events, and at each ping."""

    def __init__(
        self,
        connection: HTTPConnection,
        identity: Identity,
        clock: Clock,
        is_member: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`is_member`: whether the identity may still see what the stream is about, such as a space."""
        self._authenticate: Callable[[], Awaitable[Identity]] = connection.scope[AUTHENTICATION_KEY]
        self._identity = identity
        self._clock = clock
        self._is_member = is_member
        self._checked_at = clock.now()

    @property
    def seconds_left(self) -> float:
        """After how many seconds it ends by itself."""
        expires_at = self._identity.expires_at
        return float("inf") if expires_at is None else expires_at - self._clock.time()

    async def is_valid(self) -> bool:
        """Whether the client may read on."""
        if self.seconds_left <= 0:
            return False
        if self._clock.now() - self._checked_at >= RECHECK_SECONDS:
            self._checked_at = self._clock.now()
            try:
                current = await self._authenticate()
            except Problem:
                return False
            if current != self._identity:
                return False
        return self._is_member is None or await self._is_member()
