"""Mount: a tool with a lifespan that came after the start is mounted before its first call."""

from __future__ import annotations

from surehand.core.outcome import Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan


def mount(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Left out for tools without a lifespan."""
    tool, mounts = plan.listing.tool, plan.services.lifespans
    if tool.lifecycle.lifespan is None:
        return proceed
    plan.may_suspend = True

    async def stage(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        await mounts.enter(tool)
        return await proceed(invocation)

    return stage
