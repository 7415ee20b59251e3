"""Stage `deadline`: the time limit of one attempt, counted from the moment it has its slot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, TypeAlias

from surehand.core.clock import Deadline, Deadlines, wake
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.background_tasks import CANCELLATION_GRACE_SECONDS, BackgroundTasks
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.defaults import Defaults
from surehand.runtime.invocation.foreign_code import ForeignCodeError, call_foreign, run_foreign
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan

log = logging.getLogger("surehand")
TimeLimit: TypeAlias = float | Callable[[dict[str, Any]], float | None] | None
KINDS_WITHOUT_DEADLINE = frozenset({"client", "external", "hosted", "agent"})
"""Kinds without a time limit: they wait for people or for other agents."""


def deadline(
    plan: StackPlan,
    proceed: NextStage,
    *,
    deadlines: Deadlines,
    background_tasks: BackgroundTasks,
    defaults: Defaults,
    crash_report: CrashReport,
) -> NextStage:
    """Run a handler in a task of its own, so that its caller gets an answer in time even if it ignores cancellation.

    A handler that never awaits cannot be interrupted: the stage is left out, which saves the task.
    """
    listing = plan.listing
    handler = listing.tool.handler
    if listing.kind == "hosted" or (handler is not None and not handler.can_suspend):
        return proceed
    plan.may_suspend = True
    limit = _time_limit(plan, defaults)
    cancels_promptly = handler is None and listing.abilities.traits.cancels_promptly
    attempts = _Attempts(proceed, deadlines, background_tasks)
    attempt = attempts.run_in_caller_task if cancels_promptly else attempts.run_in_own_task

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        try:
            seconds = _seconds_for_call(limit, invocation)
        except (ForeignCodeError, ValueError, TypeError) as error:
            original = error.original if isinstance(error, ForeignCodeError) else error
            return crash_report.failure(listing.name, original).evolve(executed=False)
        invocation.start_handler()
        outcome = await attempt(invocation, seconds)
        if outcome is None:
            return Failed("timed_out", f"{listing.name} timed out after {seconds:g} s.", executed=True)
        return outcome

    return stage


class _Attempts:
    """Runs attempts of calls, each for a limited time."""

    def __init__(self, proceed: NextStage, deadlines: Deadlines, background_tasks: BackgroundTasks) -> None:
        self._proceed = proceed
        self._deadlines = deadlines
        self._background_tasks = background_tasks

    async def run_in_caller_task(self, invocation: Invocation, seconds: float | None) -> Outcome | None:
        """Run in the caller's task, and cancel that when the time is up; returns None then."""
        expiry = _DeadlineExpiry(invocation)
        timer = self._start_timer(seconds, expiry)
        try:
            outcome = await self._proceed(invocation)
            expiry.take_back_cancellation()  # the call ended although its time was up
            return outcome
        except asyncio.CancelledError:
            if timer is not None:
                timer.cancel()
            expired = expiry.take_back_cancellation()
            invocation.cancel_handler()
            await self._notify_provider(invocation, "timed_out" if expired else "cancelled")
            if not expired:
                raise
            return None
        finally:
            if timer is not None:
                timer.cancel()

    async def run_in_own_task(self, invocation: Invocation, seconds: float | None) -> Outcome | None:
        """Run in a new task, which the background tasks keep if it does not end; returns None if the time was up."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        name = invocation.listing.name
        task = loop.create_task(_run_and_wake(self._proceed, invocation, ended), name=f"surehand: {name}")
        timer = self._start_timer(seconds, partial(wake, ended))
        try:
            await ended
        except asyncio.CancelledError:
            await self._stop_task(invocation, task, "cancelled")
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if task.cancelled():  # by the handler itself: nothing else cancels this task
            return Failed("cancelled", f"{name} cancelled itself.", executed=True)
        if task.done():
            return task.result()
        await self._stop_task(invocation, task, "timed_out")
        return None

    async def _stop_task(self, invocation: Invocation, task: asyncio.Task[Outcome], reason: str) -> None:
        invocation.cancel_handler()
        try:
            await self._background_tasks.stop(task)
        finally:  # also if this task was cancelled again while it waited
            await self._notify_provider(invocation, reason)

    async def _notify_provider(self, invocation: Invocation, reason: str) -> None:
        """Tell the provider that a call was cancelled, and wait for at most the grace period."""
        listing = invocation.listing
        cancellable = listing.abilities.cancellable
        if cancellable is None:
            return
        call = invocation.call_as(listing.tool.provider_name)
        try:
            async with asyncio.timeout(CANCELLATION_GRACE_SECONDS):
                await run_foreign(self._background_tasks, cancellable.cancel, call, reason)
        except (ForeignCodeError, TimeoutError) as error:
            original = error.original if isinstance(error, ForeignCodeError) else error
            message = "Provider %s raised when its call was cancelled (%s)"
            log.error(message, listing.namespace, reason, exc_info=original)

    def _start_timer(self, seconds: float | None, on_expiry: Callable[[], object]) -> Deadline | None:
        if not seconds or seconds == inf:
            return None
        return self._deadlines.start(seconds, on_expiry)


class _DeadlineExpiry:
    """Cancels the task of a call when its time is up, and tells that from other cancellations of the task."""

    __slots__ = ("_cancelling_before", "_has_expired", "_invocation", "_task")

    def __init__(self, invocation: Invocation) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._invocation = invocation
        self._task = task
        self._cancelling_before = task.cancelling()
        self._has_expired = False

    def __call__(self) -> None:
        self._has_expired = True
        self._invocation.cancel_handler()
        self._task.cancel()

    def take_back_cancellation(self) -> bool:
        """Undo the cancellation; True if the time was up and the task was not cancelled from elsewhere too."""
        return self._has_expired and self._task.uncancel() <= self._cancelling_before


async def _run_and_wake(proceed: NextStage, invocation: Invocation, ended_future: asyncio.Future[None]) -> Outcome:
    try:
        return await proceed(invocation)
    finally:
        wake(ended_future)  # not in a done callback of the task: that would cost one more iteration of the loop


def _seconds_for_call(limit: TimeLimit, invocation: Invocation) -> float | None:
    seconds = call_foreign(limit, invocation.effective_arguments()) if callable(limit) else limit
    if seconds is not None and seconds != seconds:  # NaN, which no timer accepts
        raise ValueError("the time limit is not a number")
    return seconds


def _time_limit(plan: StackPlan, defaults: Defaults) -> TimeLimit:
    """The limit of the tool, of its provider, or the default one.

    An MCP call is bounded by its server's limit and by a `tool_timeout` that was given: the smaller counts.
    """
    tool = plan.listing.tool
    provider = plan.listing.provider
    if plan.listing.kind in KINDS_WITHOUT_DEADLINE:
        return None
    if tool.limits.timeout is not None:
        return tool.limits.timeout
    if provider is not None and provider.timeout is not None:
        given = defaults.given_tool_timeout if provider.kind == "mcp" else None
        return provider.timeout if given is None else min(provider.timeout, given)
    return defaults.tool_timeout
