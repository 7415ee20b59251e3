"""Leave: how a session, or the whole server, ends. Whoever waits for an answer is told first that none will come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.exceptions import MCPError

from toolwright.gateway.mcp.http.sessions import SESSION
from toolwright.gateway.mcp.http.short import ENDED, PARTED

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.subscriptions import ListenHandler
    from mcp_types import ErrorData

    from toolwright.gateway.mcp.http.bodies import Bodies
    from toolwright.gateway.mcp.http.short import Short

LAST = 1.0
"""Seconds in which the last answers are written."""
_STREAM = "subscriptions/listen"


class _Run:
    """A request that runs, and of which session."""

    def __init__(self, scope: anyio.CancelScope, session: str | None) -> None:
        self._scope, self.session = scope, session
        self.instead = ENDED

    def end(self, instead: ErrorData) -> None:
        self.instead = instead
        self._scope.cancel()


class Leave:
    """A middleware of the library's server that can end what runs.

    A server underneath that stops cancels the tasks of its requests, and the library closes the streams of a session
    that ends, whatever is on its way through them: then nobody is told anything, and each is logged as a bug.
    """

    def __init__(self, listening: ListenHandler, short: Short) -> None:
        self._listening, self._short = listening, short
        self._running: set[_Run] = set()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Let a request run, until it is answered or ended; a stream of news is closed in its own way."""
        if ctx.request_id is None or ctx.method == _STREAM:
            return await call_next(ctx)
        with anyio.CancelScope() as scope:
            run = _Run(scope, None if ctx.request is None else ctx.request.headers.get(SESSION))
            self._running.add(run)
            try:
                return await call_next(ctx)
            finally:
                self._running.discard(run)
        raise MCPError.from_error_data(run.instead)

    async def part(self, session: str, bodies: Bodies) -> None:
        """End what runs in a session, which ends after that."""

        def over() -> bool:  # what went the short way may come to a question, and go on through the library
            self._short.part(session)
            for run in [each for each in self._running if each.session == session]:
                run.end(PARTED)
            return not bodies.are_busy(session)

        await _wait(over, monotonic() + LAST)

    async def take(self, bodies: Bodies, sessions: StreamableHTTPSessionManager) -> None:
        """End all that runs, and then the sessions, through which the answers go."""
        until = monotonic() + LAST

        def over() -> bool:
            self._listening.close()
            self._short.leave()
            for run in list(self._running):
                run.end(ENDED)
            return not bodies.are_busy()

        await _wait(over, until)
        for transport in list(sessions._server_instances.values()):
            await transport.terminate()
        await _wait(lambda: not sessions._server_instances, until)


async def _wait(true: Callable[[], bool], until: float) -> None:
    while not true() and monotonic() < until:  # noqa: ASYNC110 - the library tells nobody when it is done
        await asyncio.sleep(0.005)
