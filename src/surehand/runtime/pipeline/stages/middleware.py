"""Stage `middleware`: the user's own code around every call, first the runtime's, then the tool's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from surehand.core.context import CURRENT_CALL
from surehand.core.errors import ToolError
from surehand.core.invoke import failed_from_crash, failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending, may_have_executed
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan

Middleware: TypeAlias = Callable[[Invocation, Proceed], Awaitable[Any]]
"""Gets the invocation and the rest of the pipeline, and returns an outcome."""


def middleware(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Wrap the rest of the pipeline in the middleware, the first one outermost."""
    wrappers = (*plan.services.middleware, *plan.listing.tool.lifecycle.middleware)
    if wrappers:
        plan.may_suspend = True
        plan.can_fold_into_invoke = False
        proceed = _track_execution(proceed)
    for wrapper in reversed(wrappers):
        proceed = _wrap(wrapper, proceed, plan)
    return proceed


def _track_execution(proceed: Proceed) -> Proceed:
    """Note that the handler ran, whatever outcome middleware makes of it."""

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        invocation.may_have_run = invocation.may_have_run or may_have_executed(outcome)
        return outcome

    return stage


def _wrap(wrapper: Middleware, proceed: Proceed, plan: StackPlan) -> Proceed:
    """One middleware around the rest of the pipeline; its exceptions become outcomes."""
    name = getattr(wrapper, "__name__", type(wrapper).__name__)

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        token = CURRENT_CALL.set(invocation)
        try:
            outcome = await wrapper(invocation, proceed)
        except ToolError as error:
            return failed_from_error(error).evolve(executed=invocation.may_have_run)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code: every exception becomes an outcome
            return failed_from_crash(
                name, error, redact=plan.services.redact, crash_details=plan.services.crash_details
            )
        finally:
            CURRENT_CALL.reset(token)
        if isinstance(outcome, (Done, Failed, Pending)):
            return outcome
        return Failed(
            "crashed", f"The middleware {name} returned {type(outcome).__name__}, not an outcome.", executed=True
        )

    return stage
