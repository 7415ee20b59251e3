"""Progress notifications: the reports of a running call, sent to the client that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from contextvars import copy_context
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.core.events import CallProgress, Event
from surehand.gateway.mcp.display_text import render_message

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.runtime.runtime import Runtime

MAX_QUEUED_REPORTS = 100
"""Reports that wait to be sent. If a client reads slower, the oldest are dropped."""
MAX_REPORT_LENGTH = 1_000
"""Characters of a report's message."""
_MAX_PROGRESS = 2**53
"""Beyond it, clients that use doubles cannot tell two successive integers apart."""


def forward_progress(
    ctx: ServerRequestContext[Any, Any], runtime: Runtime, call_id: str
) -> AbstractAsyncContextManager[None]:
    """Send the reports of a call to the client while the context is entered, if the client asked for progress."""
    return _forward_progress(ctx, runtime, call_id) if _may_want_progress(ctx) else nullcontext()


def _may_want_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    if ctx.meta is not None and ctx.meta.get("progress_token") is not None:
        return True
    # A modern client in this process passes a function to the SDK instead of a token, and the SDK does not show it to
    # handlers. `report_progress` calls it, and does nothing if there is none.
    return ctx.request is None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@asynccontextmanager
async def _forward_progress(ctx: ServerRequestContext[Any, Any], runtime: Runtime, call_id: str) -> AsyncIterator[None]:
    queue: asyncio.Queue[CallProgress | None] = asyncio.Queue(MAX_QUEUED_REPORTS)
    sender: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()
    context = copy_context()

    def put(event: CallProgress | None) -> None:
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(event)

    def on_event(event: Event) -> None:
        nonlocal sender
        if isinstance(event, CallProgress) and event.call_id == call_id:
            put(event)
            if sender is None:  # most calls report nothing, and need no task
                sender = loop.create_task(_send_reports(ctx, queue), name="mcp: progress", context=context)

    unsubscribe = runtime.listen(on_event)
    try:
        yield
        unsubscribe()
        if sender is not None:
            put(None)  # all reports are sent before the result
            await sender
    finally:
        unsubscribe()
        if sender is not None:
            sender.cancel()


async def _send_reports(ctx: ServerRequestContext[Any, Any], queue: asyncio.Queue[CallProgress | None]) -> None:
    last = -1.0
    total: float | None = None
    while (event := await queue.get()) is not None:
        progress, total = _progress_and_total(event, last, total)
        if progress <= last:  # MCP requires that progress increases with each notification
            progress = nextafter(last, inf)
        last = progress
        message = event.message or event.title
        text = None if message is None else render_message(message, MAX_REPORT_LENGTH)
        with suppress(Exception):  # a notification that cannot be sent must not end the call
            await ctx.session.report_progress(progress, total, text)


def _progress_and_total(event: CallProgress, last: float, total: float | None) -> tuple[float, float | None]:
    """The numbers of the MCP server behind the tool; else percent of the fraction; else a count without a total."""
    server_progress = _usable_number(event.data.get("progress"))
    if server_progress is not None:
        return server_progress, _usable_number(event.data.get("total"))
    fraction = _usable_number(event.fraction)
    if fraction is not None:
        return fraction * 100, 100
    return (last, total) if total is not None else (int(last) + 1, None)


def _usable_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if -_MAX_PROGRESS <= value <= _MAX_PROGRESS else None
