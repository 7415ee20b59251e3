"""Middleware: the user's own code around every call, global first, then the tool's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from surehand.core.errors import ToolError
from surehand.core.invoke import crashed, failed
from surehand.core.outcome import Done, Failed, Outcome, Pending, happened
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed

Middleware: TypeAlias = Callable[[Invocation, Proceed], Awaitable[Any]]


def middleware(plan: Plan, proceed: Proceed) -> Proceed:
    """Fold the middleware around the rest, outermost first."""
    wrappers = (*plan.parts.middleware, *plan.listing.tool.life.middleware)
    if wrappers:
        plan.suspends, plan.bare = True, False
        proceed = _noting(proceed)
    for wrapper in reversed(wrappers):
        proceed = _around(wrapper, proceed, plan)
    return proceed


def _noting(proceed: Proceed) -> Proceed:
    """Whatever middleware does afterwards, that the handler ran stays true."""

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        invocation.began = invocation.began or happened(outcome)
        return outcome

    return stage


def _around(wrapper: Middleware, proceed: Proceed, plan: Plan) -> Proceed:
    name = getattr(wrapper, "__name__", type(wrapper).__name__)

    async def stage(invocation: Invocation) -> Outcome:
        invocation.suspend()
        try:
            outcome = await wrapper(invocation, proceed)
        except ToolError as error:
            return failed(error).evolve(executed=invocation.began)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises is an outcome
            return crashed(name, error, redact=plan.parts.redact, details=plan.parts.crash_details)
        if isinstance(outcome, (Done, Failed, Pending)):
            return outcome
        return Failed(
            "crashed", f"The middleware {name} returned {type(outcome).__name__}, not an outcome.", executed=True
        )

    return stage
