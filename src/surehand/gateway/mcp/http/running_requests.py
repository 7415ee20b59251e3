"""The running requests that the MCP SDK handles. They are ended with an error when their session or the server ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ErrorData

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

SESSION_ENDED = ErrorData(code=INTERNAL_ERROR, message="Session terminated before the request completed")
SERVER_STOPPED = ErrorData(code=INTERNAL_ERROR, message="The server stopped before the request completed.")
LISTEN_METHOD = "subscriptions/listen"


class _RunningRequest:
    def __init__(self, scope: anyio.CancelScope, session_id: str | None) -> None:
        self._scope = scope
        self.session_id = session_id
        self.error = SERVER_STOPPED

    def end(self, error: ErrorData) -> None:
        self.error = error
        self._scope.cancel()


class RunningRequests:
    """A middleware of the MCP SDK's server that can end running requests.

    When a session ends, the SDK closes its streams at once: clients would get no response to their running requests,
    and the SDK would log each of these as an error.
    """

    def __init__(self) -> None:
        self._running: set[_RunningRequest] = set()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Run a request until it is answered or ended. Streams of notifications are closed by their own handler."""
        if ctx.request_id is None or ctx.method == LISTEN_METHOD:
            return await call_next(ctx)
        with anyio.CancelScope() as scope:
            session_id = None if ctx.request is None else ctx.request.headers.get(MCP_SESSION_ID_HEADER)
            running = _RunningRequest(scope, session_id)
            self._running.add(running)
            try:
                return await call_next(ctx)
            finally:
                self._running.discard(running)
        raise MCPError.from_error_data(running.error)

    def end_session(self, session_id: str) -> None:
        """End the requests of one session."""
        for running in [each for each in self._running if each.session_id == session_id]:
            running.end(SESSION_ENDED)

    def end_all(self) -> None:
        """End every request."""
        for running in list(self._running):
            running.end(SERVER_STOPPED)
