"""Deadline: the time limit of one attempt, from the moment a slot is held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, TypeAlias

from surehand.core.clock import Deadline, wake
from surehand.core.invoke import failed_from_crash
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.runtime.pipeline.reaper import CANCELLATION_GRACE_SECONDS

log = logging.getLogger("surehand")
TimeLimit: TypeAlias = float | Callable[[dict[str, Any]], float | None] | None
KINDS_WITHOUT_DEADLINE = frozenset({"client", "external", "hosted", "agent"})
"""Kinds without a limit of their own: they wait for people, or work for as long as their work takes."""


def deadline(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Whoever may not end when cancelled runs in a task of its own, so that its caller is answered in time.

    A handler that never awaits needs none: nothing could interrupt it, and it pays for no task.
    """
    listing, parts = plan.listing, plan.services
    handler, provider = listing.tool.handler, listing.provider
    if listing.kind == "hosted" or (handler is not None and not handler.can_suspend):
        return proceed
    plan.may_suspend = True
    limit, attempt = (
        _time_limit(plan),
        _run_in_caller_task
        if handler is None and provider is not None and provider.cancels_promptly
        else _run_in_own_task,
    )

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        try:
            seconds = _seconds_for_call(limit, invocation)
        except Exception as error:  # noqa: BLE001 - the tool's own function of its arguments
            return failed_from_crash(
                listing.name, error, redact=parts.redact, crash_details=parts.crash_details
            ).evolve(executed=False)
        invocation.may_have_run = True
        outcome = await attempt(proceed, invocation, seconds)
        if outcome is None:
            return Failed("timed_out", f"{listing.name} timed out after {seconds:g} s.", executed=True)
        return outcome

    return stage


async def _run_in_caller_task(proceed: Proceed, invocation: Invocation, seconds: float | None) -> Outcome | None:
    """Run in the caller's task, which is cancelled when the time is up; None if it was."""
    expiry = _DeadlineExpiry(invocation)
    timer = _start_timer(invocation, seconds, expiry)
    try:
        outcome = await proceed(invocation)
        expiry.take_back_cancellation()  # it ended all the same
        return outcome
    except asyncio.CancelledError:
        if timer is not None:
            timer.cancel()
        expired, invocation.cancelled = expiry.take_back_cancellation(), True
        await _notify_provider(invocation, "timed_out" if expired else "cancelled")
        if not expired:
            raise
        return None
    finally:
        if timer is not None:
            timer.cancel()


class _DeadlineExpiry:
    """Cancels the task that a call runs in, and can tell that from a cancellation by anybody else."""

    __slots__ = ("_cancelling_before", "_has_expired", "_invocation", "_task")

    def __init__(self, invocation: Invocation) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._invocation, self._task, self._cancelling_before, self._has_expired = (
            invocation,
            task,
            task.cancelling(),
            False,
        )

    def __call__(self) -> None:
        self._has_expired = self._invocation.cancelled = True
        self._task.cancel()

    def take_back_cancellation(self) -> bool:
        """Whether the time was up, and nobody else had a reason to cancel."""
        return self._has_expired and self._task.uncancel() <= self._cancelling_before


async def _run_in_own_task(proceed: Proceed, invocation: Invocation, seconds: float | None) -> Outcome | None:
    """Run in a task of its own, which is left behind if it does not end; None if the time was up."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    name = invocation.listing.name
    task = loop.create_task(_run_and_wake(proceed, invocation, ended), name=f"surehand: {name}")
    timer = _start_timer(invocation, seconds, partial(wake, ended))
    try:
        await ended
    except asyncio.CancelledError:
        await _stop_task(invocation, task, "cancelled")
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if task.cancelled():  # by itself: nobody else has had a reason to
        return Failed("cancelled", f"{name} cancelled itself.", executed=True)
    if task.done():
        return task.result()
    await _stop_task(invocation, task, "timed_out")
    return None


async def _run_and_wake(proceed: Proceed, invocation: Invocation, ended_future: asyncio.Future[None]) -> Outcome:
    try:
        return await proceed(invocation)
    finally:
        wake(ended_future)  # here and not in a callback of the task: one turn of the loop less for every call


async def _stop_task(invocation: Invocation, task: asyncio.Task[Outcome], reason: str) -> None:
    invocation.cancelled = True
    try:
        await invocation.scope.services.reaper.stop(task)
    finally:  # whoever is cancelled once more has waited for the task all the same
        await _notify_provider(invocation, reason)


async def _notify_provider(invocation: Invocation, reason: str) -> None:
    """The other side should know, but its answer is not waited for long."""
    listing = invocation.listing
    if (provider := listing.provider) is None:
        return
    try:
        async with asyncio.timeout(CANCELLATION_GRACE_SECONDS):
            await provider.cancel(invocation.call_as(listing.tool.name), reason)
    except Exception:
        log.exception("%s could not be told that a call was %s", provider.namespace, reason)


def _start_timer(invocation: Invocation, seconds: float | None, on_expiry: Callable[[], object]) -> Deadline | None:
    return invocation.scope.services.deadlines.start(seconds, on_expiry) if seconds and seconds != inf else None


def _seconds_for_call(limit: TimeLimit, invocation: Invocation) -> float | None:
    seconds = limit(invocation.effective_arguments()) if callable(limit) else limit
    if seconds is not None and seconds != seconds:  # not a number, and no timer's either
        raise ValueError("the time limit is not a number")
    return seconds


def _time_limit(plan: StackPlan) -> TimeLimit:
    tool, provider = plan.listing.tool, plan.listing.provider
    if plan.listing.kind in KINDS_WITHOUT_DEADLINE:
        return None
    if tool.limits.timeout is not None:
        return tool.limits.timeout
    if provider is not None and provider.timeout is not None:
        return provider.timeout
    return plan.services.defaults.tool_timeout
