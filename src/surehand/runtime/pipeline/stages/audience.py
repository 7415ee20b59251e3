"""Stage `audience`: refuse models tools that are only for people."""

from __future__ import annotations

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan


def audience(plan: StackPlan, proceed: NextStage) -> NextStage:
    """Let only `dispatch` reach a tool whose audience is `user`."""
    if plan.listing.tool.audience != "user":
        return proceed
    name = plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.request.made_by in ("person", "store"):
            return await proceed(invocation)
        return Failed("denied", f"{name} is not allowed here: it is for people, who run it with runtime.dispatch.")

    return stage
