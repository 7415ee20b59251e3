"""Deadline: the time limit of one attempt, from the moment a slot is held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Any, TypeAlias

from toolwright.core.call import Call
from toolwright.core.clock import wake
from toolwright.core.invoke import crashed
from toolwright.core.outcome import Failed, Outcome
from toolwright.core.provider import Provider
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed
from toolwright.runtime.reaper import GRACE

log = logging.getLogger("toolwright")
Limit: TypeAlias = float | Callable[[dict[str, Any]], float | None] | None
UNTIMED = frozenset({"client", "external", "hosted", "agent"})
"""Kinds without a limit of their own: they wait for people, or work for as long as their work takes."""


def deadline(plan: Plan, proceed: Proceed) -> Proceed:
    """The handler runs in a task of its own, so that its caller can be answered in time whatever it does.

    A handler that never awaits needs none: nothing could interrupt it, and it pays for no task.
    """
    listing, parts = plan.listing, plan.parts
    handler = listing.tool.handler
    if listing.kind == "hosted" or (handler is not None and not handler.suspends):
        return proceed
    plan.suspends = True
    limit, task_name = _limit(plan), f"toolwright: {listing.name}"

    async def stage(invocation: Invocation) -> Outcome:
        invocation.suspend()
        try:
            seconds = _seconds(limit, invocation)
        except Exception as error:  # noqa: BLE001 - the tool's own function of its arguments
            return crashed(listing.name, error, redact=parts.redact, details=parts.crash_details).evolve(executed=False)
        invocation.began = True
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        task = loop.create_task(run(invocation, ended), name=task_name)
        timer = parts.deadlines.start(seconds, ended) if seconds and seconds != inf else None
        try:
            await ended
        except asyncio.CancelledError:
            await stop(invocation, task, "cancelled")
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if task.cancelled():  # by itself: nobody else has had a reason to
            return Failed("cancelled", f"{listing.name} cancelled itself.", executed=True)
        if task.done():
            return task.result()
        await stop(invocation, task, "timed_out")
        return Failed("timed_out", f"{listing.name} timed out after {seconds:g} s.", executed=True)

    async def run(invocation: Invocation, ended: asyncio.Future[None]) -> Outcome:
        try:
            return await proceed(invocation)
        finally:
            wake(ended)  # here and not in a callback of the task: one turn of the loop less for every call

    async def stop(invocation: Invocation, task: asyncio.Task[Outcome], reason: str) -> None:
        invocation.cancelled = True
        await parts.reaper.stop(task)
        if listing.provider is not None:
            await _tell(listing.provider, invocation.call_of(listing.tool.name), reason)

    return stage


async def _tell(provider: Provider, call: Call, reason: str) -> None:
    """The other side should know, but its answer is not waited for long."""
    try:
        async with asyncio.timeout(GRACE):
            await provider.cancel(call, reason)
    except Exception:
        log.exception("%s could not be told that a call was %s", provider.namespace, reason)


def _seconds(limit: Limit, invocation: Invocation) -> float | None:
    seconds = limit(invocation.effective()) if callable(limit) else limit
    if seconds is not None and seconds != seconds:  # not a number, and no timer's either
        raise ValueError("the time limit is not a number")
    return seconds


def _limit(plan: Plan) -> Limit:
    tool, provider = plan.listing.tool, plan.listing.provider
    if plan.listing.kind in UNTIMED:
        return None
    if tool.limits.timeout is not None:
        return tool.limits.timeout
    if provider is not None and provider.timeout is not None:
        return provider.timeout
    return plan.parts.defaults.tool_timeout
