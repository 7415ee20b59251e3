"""Stages `outer_middleware` and `middleware`: code around every call, first the runtime's, then the tool's.

Middleware runs inside approval; an `OuterMiddleware` sees refused calls and unknown tools too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from surehand.core.context import CURRENT_CALL
from surehand.core.errors import ToolError
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending, may_have_executed
from surehand.runtime.background_tasks import CANCELLATION_GRACE_SECONDS, BackgroundTasks
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.invocation.foreign_code import ForeignCodeError, foreign_result, is_interruption, start_foreign
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware, MiddlewareTable, OuterMiddleware
from surehand.runtime.pipeline.pipeline import StackPlan


def outer_middleware(
    plan: StackPlan,
    proceed: NextStage,
    *,
    table: MiddlewareTable,
    background_tasks: BackgroundTasks,
    crash_report: CrashReport,
) -> NextStage:
    """Wrap all other stages but `record` in the outer middleware, the first one outermost."""
    wrappers = [wrapper for wrapper in _middleware_of(plan, table) if isinstance(wrapper, OuterMiddleware)]
    if not wrappers:
        return proceed
    plan.may_suspend = True
    return _in_own_task(
        wrappers,
        proceed,
        background_tasks=background_tasks,
        crash_report=crash_report,
        inner_grace_seconds=2 * CANCELLATION_GRACE_SECONDS,
    )


def middleware(
    plan: StackPlan,
    proceed: NextStage,
    *,
    table: MiddlewareTable,
    background_tasks: BackgroundTasks,
    crash_report: CrashReport,
) -> NextStage:
    """Wrap the rest of the pipeline in the middleware, the first one outermost."""
    wrappers = [wrapper for wrapper in _middleware_of(plan, table) if not isinstance(wrapper, OuterMiddleware)]
    if not wrappers:
        return proceed
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    proceed = _track_execution(proceed)
    return _in_own_task(
        wrappers,
        proceed,
        background_tasks=background_tasks,
        crash_report=crash_report,
        inner_grace_seconds=CANCELLATION_GRACE_SECONDS,
    )


def wrap_all(wrappers: Sequence[Middleware], proceed: NextStage, crash_report: CrashReport) -> NextStage:
    """Wrap a part of the pipeline in several middlewares, the first one outermost."""
    for wrapper in reversed(wrappers):
        proceed = _wrap(wrapper, proceed, crash_report)
    return proceed


def _middleware_of(plan: StackPlan, table: MiddlewareTable) -> tuple[Middleware, ...]:
    return (*table.for_tool(plan.listing.names), *plan.listing.tool.lifecycle.middleware)


def _track_execution(proceed: NextStage) -> NextStage:
    """Note that the handler ran, whatever outcome middleware makes of it."""

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        if may_have_executed(outcome):
            invocation.start_handler()
        return outcome

    return stage


def _in_own_task(
    wrappers: Sequence[Middleware],
    proceed: NextStage,
    *,
    background_tasks: BackgroundTasks,
    crash_report: CrashReport,
    inner_grace_seconds: float,
) -> NextStage:
    """Run middleware in a task of its own: one that ignores its cancellation does not keep the caller.

    Args:
        inner_grace_seconds: how long the stages inside may take to stop, which the middleware has to wait for.
    """
    inside: set[Invocation] = set()
    """Calls that are in the stages inside the middleware now."""

    async def proceed_inside(invocation: Invocation) -> Outcome:
        inside.add(invocation)
        try:
            return await proceed(invocation)
        finally:
            inside.discard(invocation)

    chain = wrap_all(wrappers, proceed_inside, crash_report)

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        task = start_foreign(chain(invocation))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # Middleware may stop its own call and return in the same moment: then its outcome counts.
            if not task.done() or invocation.interruption_reason is None:
                inner = inner_grace_seconds if invocation in inside else 0.0
                await background_tasks.stop(task, grace_seconds=inner + CANCELLATION_GRACE_SECONDS)
                raise
        try:
            return foreign_result(task)  # type: ignore[no-any-return]  # what `chain` returns
        except ForeignCodeError as error:  # of the stages inside: `_wrap` turns those of middleware into outcomes
            raise error.original from None

    return stage


def _wrap(wrapper: Middleware, proceed: NextStage, crash_report: CrashReport) -> NextStage:
    """One middleware around the rest of the pipeline; its exceptions become outcomes."""
    name = getattr(wrapper, "__name__", type(wrapper).__name__)

    async def stage(invocation: Invocation) -> Outcome:
        task = asyncio.current_task()
        token = CURRENT_CALL.set(invocation)
        try:
            outcome = await wrapper(invocation, proceed)
        except ToolError as error:
            return failed_from_error(error).evolve(executed=invocation.may_have_executed)
        except BaseException as error:  # foreign code: every exception becomes an outcome
            if is_interruption(error, task):
                raise
            return crash_report.failure(name, error)
        finally:
            CURRENT_CALL.reset(token)
        if isinstance(outcome, (Done, Failed, Pending)):
            return outcome
        return Failed(
            "crashed", f"The middleware {name} returned {type(outcome).__name__}, not an outcome.", executed=True
        )

    return stage
