"""Flights: the requests of each session that run; beyond a number, more are refused.

A client of the older protocol may close the answer's stream, and its request runs on: so streams do not bound them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolwright.gateway.mcp.http.admission import held
from toolwright.gateway.mcp.http.sessions import SESSION
from toolwright.gateway.mcp.messages.allowance import AT_ONCE, BUSY

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext


class Flights:
    """A middleware of the library's server that counts what runs."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._running: Counter[str] = Counter()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Let a request run, or refuse it."""
        if ctx.request is None or ctx.request_id is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await call_next(ctx)
        with held(ctx.request.scope) or nullcontext():
            return await self._in_session(ctx, call_next, ctx.request.headers.get(SESSION))

    async def _in_session(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, session: str | None
    ) -> HandlerResult:
        if session is None:
            return await call_next(ctx)
        if not self.has_room(session):
            raise MCPError(
                code=BUSY, message=f"Too many requests: {self._at_once} run. Try again once one was answered."
            )
        with self.one(session):
            return await call_next(ctx)

    def has_room(self, session: str) -> bool:
        """Whether one more may run."""
        return self._running[session] < self._at_once

    @contextmanager
    def one(self, session: str) -> Iterator[None]:
        """Count one that runs."""
        self._running[session] += 1
        try:
            yield
        finally:
            self._running[session] -= 1
            if not self._running[session]:
                del self._running[session]
