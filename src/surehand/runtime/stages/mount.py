"""Mount: a tool with a lifespan that came after the start is mounted before its first call."""

from __future__ import annotations

from surehand.core.outcome import Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed


def mount(plan: Plan, proceed: Proceed) -> Proceed:
    """Left out for tools without a lifespan."""
    tool, mounts = plan.listing.tool, plan.parts.mounts
    if tool.life.lifespan is None:
        return proceed
    plan.suspends = True

    async def stage(invocation: Invocation) -> Outcome:
        invocation.suspend()
        await mounts.mount(tool)
        return await proceed(invocation)

    return stage
