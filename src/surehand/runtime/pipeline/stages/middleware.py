"""Stages `outer_middleware` and `middleware`: code around every call, first the runtime's, then the tool's.

Middleware runs inside approval; an `OuterMiddleware` sees refused calls and unknown tools too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.context import CURRENT_CALL
from surehand.core.errors import ToolError
from surehand.core.invoke import failed_from_crash, failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending, may_have_executed
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

Middleware: TypeAlias = Callable[[Invocation, Proceed], Awaitable[Any]]
"""Gets the invocation and the rest of the pipeline, and returns an outcome."""


class OuterMiddleware:
    """Middleware around all other stages: it sees every call, before its arguments are checked and if it is refused."""

    def __init__(self, wrapper: Middleware) -> None:
        self._wrapper = wrapper
        self.__name__ = getattr(wrapper, "__name__", type(wrapper).__name__)

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Any:
        return await self._wrapper(invocation, proceed)


def outer_middleware(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Wrap all other stages but `record` in the outer middleware, the first one outermost."""
    wrappers = [wrapper for wrapper in _middleware_of(plan) if isinstance(wrapper, OuterMiddleware)]
    if wrappers:
        plan.may_suspend = True
    return _wrap_all(wrappers, proceed, plan.services)


def middleware(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Wrap the rest of the pipeline in the middleware, the first one outermost."""
    wrappers = [wrapper for wrapper in _middleware_of(plan) if not isinstance(wrapper, OuterMiddleware)]
    if wrappers:
        plan.may_suspend = True
        plan.can_fold_into_invoke = False
        proceed = _track_execution(proceed)
    return _wrap_all(wrappers, proceed, plan.services)


def _wrap_all(wrappers: Sequence[Middleware], proceed: Proceed, services: RuntimeServices) -> Proceed:
    """Wrap a part of the pipeline in several middlewares, the first one outermost."""
    for wrapper in reversed(wrappers):
        proceed = _wrap(wrapper, proceed, services)
    return proceed


def _middleware_of(plan: StackPlan) -> tuple[Middleware, ...]:
    return (*plan.services.middleware, *plan.listing.tool.lifecycle.middleware)


def _track_execution(proceed: Proceed) -> Proceed:
    """Note that the handler ran, whatever outcome middleware makes of it."""

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        invocation.may_have_run = invocation.may_have_run or may_have_executed(outcome)
        return outcome

    return stage


def _wrap(wrapper: Middleware, proceed: Proceed, services: RuntimeServices) -> Proceed:
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
            return failed_from_crash(name, error, redact=services.redact, crash_details=services.crash_details)
        finally:
            CURRENT_CALL.reset(token)
        if isinstance(outcome, (Done, Failed, Pending)):
            return outcome
        return Failed(
            "crashed", f"The middleware {name} returned {type(outcome).__name__}, not an outcome.", executed=True
        )

    return stage
