"""Intent: a call that is not repeatable is claimed before it runs, so that it can run only once."""

from __future__ import annotations

from toolwright.core.outcome import Outcome, Pending
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.ledger import happened
from toolwright.runtime.pipeline import Plan, Proceed


def intent(plan: Plan, proceed: Proceed) -> Proceed:
    """After the queue, because a call that dies while it waits in line has had no effect."""
    if not plan.recallable or plan.listing.tool.repeatable:
        return proceed
    kept, name = plan.parts.ledger, plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer is not None:
            return await proceed(invocation)
        if not kept.claim(invocation.id):
            if invocation.ran is not None:  # middleware that proceeds twice gets the same outcome twice
                return invocation.ran
            return Pending("result", invocation.id, f"{name} is running already under this id.")
        outcome = await proceed(invocation)
        if isinstance(outcome, Pending) or not happened(outcome):
            kept.release(invocation.id)
        else:
            invocation.ran = outcome
        return outcome

    return stage
