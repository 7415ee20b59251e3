"""Progress: what a call reports while a client waits for it."""

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
"""Reports on their way; a client that is slower misses the oldest."""
MAX_REPORT_LENGTH = 1_000
"""Characters of what one says."""
_MAX_PROGRESS = 2**53
"""How far is counted: beyond it, one more is no other number to most clients."""


def forward_progress(
    ctx: ServerRequestContext[Any, Any], runtime: Runtime, call_id: str
) -> AbstractAsyncContextManager[None]:
    """Send the client what the call reports, if it asked for progress."""
    return _forward_progress(ctx, runtime, call_id) if _may_want_progress(ctx) else nullcontext()


def _may_want_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    if ctx.meta is not None and ctx.meta.get("progress_token") is not None:
        return True
    # A modern client in this process passes the SDK a function in place of a token, which the SDK does not show us.
    # `report_progress` calls it, and does nothing where there is none.
    return ctx.request is None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@asynccontextmanager
async def _forward_progress(ctx: ServerRequestContext[Any, Any], runtime: Runtime, call_id: str) -> AsyncIterator[None]:
    waiting: asyncio.Queue[CallProgress | None] = asyncio.Queue(MAX_QUEUED_REPORTS)
    sender: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()
    context = copy_context()

    def put(event: CallProgress | None) -> None:
        if waiting.full():
            waiting.get_nowait()
        waiting.put_nowait(event)

    def hear(event: Event) -> None:
        nonlocal sender
        if isinstance(event, CallProgress) and event.call_id == call_id:
            put(event)
            if sender is None:  # most calls report nothing, and need no task
                sender = loop.create_task(_send_reports(ctx, waiting), name="mcp: progress", context=context)

    unsubscribe = runtime.listen(hear)
    try:
        yield
        unsubscribe()
        if sender is not None:
            put(None)  # what was reported before the end is sent before the result
            await sender
    finally:
        unsubscribe()
        if sender is not None:
            sender.cancel()


async def _send_reports(ctx: ServerRequestContext[Any, Any], queue: asyncio.Queue[CallProgress | None]) -> None:
    last, total = -1.0, None
    while (event := await queue.get()) is not None:
        progress, total = _progress_and_total(event, last, total)
        if progress <= last:  # it must not stand still or go back
            progress = nextafter(last, inf)
        last, message = progress, event.message or event.title
        with suppress(Exception):  # a client that does not want to know is no reason to end its call
            await ctx.session.report_progress(
                progress, total, None if message is None else render_message(message, MAX_REPORT_LENGTH)
            )


def _progress_and_total(event: CallProgress, last: float, total: float | None) -> tuple[float, float | None]:
    """As the other side counts, where it is another server's; else hundredths, or steps of unknown number."""
    if (said := _usable_number(event.data.get("progress"))) is not None:
        return said, _usable_number(event.data.get("total"))
    if (fraction := _usable_number(event.fraction)) is not None:
        return fraction * 100, 100
    return (last, total) if total is not None else (int(last) + 1, None)


def _usable_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if -_MAX_PROGRESS <= value <= _MAX_PROGRESS else None
