"""Stage `mount`: enter the lifespan of a tool before its first call, if it was added while the runtime ran."""

from __future__ import annotations

from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.pipeline.pipeline import StackPlan


def mount(plan: StackPlan, proceed: NextStage, *, lifespans: Lifespans) -> NextStage:
    """Left out for tools without a lifespan."""
    tool = plan.listing.tool
    if tool.lifecycle.lifespan is None:
        return proceed
    plan.may_suspend = True

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        await lifespans.enter(tool)
        return await proceed(invocation)

    return stage
