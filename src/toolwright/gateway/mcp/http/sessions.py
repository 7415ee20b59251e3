"""Sessions: those of the older protocol that have begun, as far as one has to know them to call tools in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Scope

SESSION = "mcp-session-id"


class Begun(NamedTuple):
    """A session whose client has said hello, and may call."""

    connection: Connection
    transport: StreamableHTTPServerTransport

    @contextmanager
    def busy(self) -> Iterator[None]:
        """It is not idle meanwhile: the library ends those that are, for long."""
        self.transport._requests_in_flight += 1
        self._ends_at(math.inf)
        try:
            yield
        finally:
            self.transport._requests_in_flight -= 1
            if not self.transport._requests_in_flight:
                self._ends_at(anyio.current_time() + (self.transport._idle_timeout or math.inf))

    def _ends_at(self, when: float) -> None:
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.deadline = when


class Sessions:
    """A middleware of the library's server that gets to know its sessions."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self.library: StreamableHTTPSessionManager | None = None
        """Which knows whose they are."""
        self._connections: dict[str, Connection] = {}
        self._ended = ended

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Remember the session of a client that has said hello."""
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized" and ctx.request is not None:
            self._meet(ctx.request.headers.get(SESSION), ctx.session._connection)
        return result

    def _meet(self, session: str | None, connection: Connection) -> None:
        if session is not None and session not in self._connections:
            self._connections[session] = connection
            connection.exit_stack.callback(self._part, session)

    def _part(self, session: str) -> None:
        del self._connections[session]
        self._ended(session)

    def find(self, session: str, scope: Scope) -> Begun | None:
        """The session of that name, if it goes on, and is of whoever asks."""
        connection, library = self._connections.get(session), self.library
        if connection is None or library is None or (transport := library._server_instances.get(session)) is None:
            return None
        user = scope.get("user")
        owner = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
        ends = transport.is_terminated or (transport.idle_scope is not None and transport.idle_scope.cancel_called)
        return None if ends or owner != library._session_owners.get(session) else Begun(connection, transport)

    @property
    def are_served(self) -> bool:
        """Whether the library would serve a request at all."""
        return self.library is not None and self.library._task_group is not None
