"""Deadline: the time limit of one attempt, from the moment a slot is held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from toolwright.core.clock import wake
from toolwright.core.outcome import Failed, Outcome
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed

Limit: TypeAlias = float | Callable[[dict[str, Any]], float | None] | None
EXEMPT = frozenset({"client", "external", "hosted", "agent"})


def deadline(plan: Plan, proceed: Proceed) -> Proceed:
    """The handler runs in a task of its own, so that its caller can be answered in time whatever it does.

    A handler that never awaits needs none: nothing could interrupt it, and it pays for no task.
    """
    listing, parts = plan.listing, plan.parts
    handler = listing.tool.handler
    if listing.kind in EXEMPT or (handler is not None and not handler.suspends):
        return proceed
    plan.suspends = True
    limit = _limit(plan)

    async def stage(invocation: Invocation) -> Outcome:
        seconds = limit(invocation.arguments) if callable(limit) else limit
        invocation.began = True
        loop = asyncio.get_running_loop()
        invocation.suspend()
        task = loop.create_task(proceed(invocation), name=f"toolwright: {listing.name}")
        ended: asyncio.Future[None] = loop.create_future()
        task.add_done_callback(lambda _: wake(ended))
        timer = parts.deadlines.start(seconds, lambda: wake(ended)) if seconds else None
        try:
            await ended
        except asyncio.CancelledError:
            await _stop(invocation, task, "cancelled")
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if task.done():
            return task.result()
        await _stop(invocation, task, "timed_out")
        return Failed("timed_out", f"{listing.name} timed out after {seconds:g} s.", executed=True)

    async def _stop(invocation: Invocation, task: asyncio.Task[Outcome], reason: str) -> None:
        invocation.cancelled = True
        await parts.reaper.stop(task)
        if listing.provider is not None:
            await listing.provider.cancel(invocation.call, reason)

    return stage


def _limit(plan: Plan) -> Limit:
    tool, provider = plan.listing.tool, plan.listing.provider
    if tool.limits.timeout is not None:
        return tool.limits.timeout
    if provider is not None and provider.timeout is not None:
        return provider.timeout
    return plan.parts.defaults.tool_timeout
