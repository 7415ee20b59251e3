"""Flights: the requests of each session that run; beyond a number, more are refused.

A client of the older protocol may close the answer's stream, and its request runs on: so streams do not bound them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError

from toolwright.gateway.mcp.pipe.gate import AT_ONCE, BUSY
from toolwright.gateway.mcp.web.bodies import SESSION

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext


class Flights:
    """A middleware of the library's server that counts what runs."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._running: Counter[str] = Counter()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Let a request run, or refuse it."""
        session = ctx.request.headers.get(SESSION) if ctx.request is not None and ctx.request_id is not None else None
        if session is None:
            return await call_next(ctx)
        if self._running[session] >= self._at_once:
            raise MCPError(
                code=BUSY, message=f"Too many requests: {self._at_once} run. Try again once one was answered."
            )
        self._running[session] += 1
        try:
            return await call_next(ctx)
        finally:
            self._running[session] -= 1
            if not self._running[session]:
                del self._running[session]
