"""Deadline: the time limit of one attempt, from the moment a slot is held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, TypeAlias

from surehand.core.clock import Deadline, wake
from surehand.core.invoke import crashed
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.reaper import GRACE

log = logging.getLogger("surehand")
Limit: TypeAlias = float | Callable[[dict[str, Any]], float | None] | None
UNTIMED = frozenset({"client", "external", "hosted", "agent"})
"""Kinds without a limit of their own: they wait for people, or work for as long as their work takes."""


def deadline(plan: Plan, proceed: Proceed) -> Proceed:
    """Whoever may not end when cancelled runs in a task of its own, so that its caller is answered in time.

    A handler that never awaits needs none: nothing could interrupt it, and it pays for no task.
    """
    listing, parts = plan.listing, plan.parts
    handler, provider = listing.tool.handler, listing.provider
    if listing.kind == "hosted" or (handler is not None and not handler.suspends):
        return proceed
    plan.suspends = True
    limit, attempt = _limit(plan), _within if handler is None and provider is not None and provider.lets_go else _apart

    async def stage(invocation: Invocation) -> Outcome:
        invocation.suspend()
        try:
            seconds = _seconds(limit, invocation)
        except Exception as error:  # noqa: BLE001 - the tool's own function of its arguments
            return crashed(listing.name, error, redact=parts.redact, details=parts.crash_details).evolve(executed=False)
        invocation.began = True
        outcome = await attempt(proceed, invocation, seconds)
        if outcome is None:
            return Failed("timed_out", f"{listing.name} timed out after {seconds:g} s.", executed=True)
        return outcome

    return stage


async def _within(proceed: Proceed, invocation: Invocation, seconds: float | None) -> Outcome | None:
    """Run in the caller's task, which is cancelled when the time is up; None if it was."""
    expiry = _Expiry(invocation)
    timer = _timer(invocation, seconds, expiry)
    try:
        outcome = await proceed(invocation)
        expiry.taken_back()  # it ended all the same
        return outcome
    except asyncio.CancelledError:
        if timer is not None:
            timer.cancel()
        expired, invocation.cancelled = expiry.taken_back(), True
        await _tell(invocation, "timed_out" if expired else "cancelled")
        if not expired:
            raise
        return None
    finally:
        if timer is not None:
            timer.cancel()


class _Expiry:
    """Cancels the task that a call runs in, and can tell that from a cancellation by anybody else."""

    __slots__ = ("_before", "_invocation", "_passed", "_task")

    def __init__(self, invocation: Invocation) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._invocation, self._task, self._before, self._passed = invocation, task, task.cancelling(), False

    def __call__(self) -> None:
        self._passed = self._invocation.cancelled = True
        self._task.cancel()

    def taken_back(self) -> bool:
        """Whether the time was up, and nobody else had a reason to cancel."""
        return self._passed and self._task.uncancel() <= self._before


async def _apart(proceed: Proceed, invocation: Invocation, seconds: float | None) -> Outcome | None:
    """Run in a task of its own, which is left behind if it does not end; None if the time was up."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    name = invocation.listing.name
    task = loop.create_task(_run(proceed, invocation, ended), name=f"surehand: {name}")
    timer = _timer(invocation, seconds, partial(wake, ended))
    try:
        await ended
    except asyncio.CancelledError:
        await _stop(invocation, task, "cancelled")
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if task.cancelled():  # by itself: nobody else has had a reason to
        return Failed("cancelled", f"{name} cancelled itself.", executed=True)
    if task.done():
        return task.result()
    await _stop(invocation, task, "timed_out")
    return None


async def _run(proceed: Proceed, invocation: Invocation, ended: asyncio.Future[None]) -> Outcome:
    try:
        return await proceed(invocation)
    finally:
        wake(ended)  # here and not in a callback of the task: one turn of the loop less for every call


async def _stop(invocation: Invocation, task: asyncio.Task[Outcome], reason: str) -> None:
    invocation.cancelled = True
    try:
        await invocation.scope.parts.reaper.stop(task)
    finally:  # whoever is cancelled once more has waited for the task all the same
        await _tell(invocation, reason)


async def _tell(invocation: Invocation, reason: str) -> None:
    """The other side should know, but its answer is not waited for long."""
    listing = invocation.listing
    if (provider := listing.provider) is None:
        return
    try:
        async with asyncio.timeout(GRACE):
            await provider.cancel(invocation.call_of(listing.tool.name), reason)
    except Exception:
        log.exception("%s could not be told that a call was %s", provider.namespace, reason)


def _timer(invocation: Invocation, seconds: float | None, passed: Callable[[], object]) -> Deadline | None:
    return invocation.scope.parts.deadlines.start(seconds, passed) if seconds and seconds != inf else None


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
