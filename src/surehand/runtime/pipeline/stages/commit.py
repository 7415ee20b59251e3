"""Stage `commit`: keep the outcome for `last_results`, and await `on_commit` before the end is reported."""

from __future__ import annotations

from surehand.core.outcome import Outcome, Pending
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pipeline.pipeline import NextStage, StackPlan


def commit(plan: StackPlan, proceed: NextStage) -> NextStage:
    """Left out for calls without a session, in a runtime without `on_commit`."""
    services = plan.services
    has_session = plan.has_session
    has_hook = services.on_commit is not None
    if not has_session and not has_hook:
        return proceed
    plan.may_suspend = plan.may_suspend or has_hook
    name = plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        if isinstance(outcome, Pending):
            return outcome
        if has_session:
            services.last_results.add(invocation.principal, name, outcome)
        if has_hook:
            invocation.make_interruptible()
            await services.commit(invocation, outcome)
        return outcome

    return stage
