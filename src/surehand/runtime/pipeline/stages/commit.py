"""Stage `commit`: keep the outcome for `last_results`, and await `on_commit` before the end is reported."""

from __future__ import annotations

from surehand.core.outcome import Outcome, Pending
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.committed_results import CommittedResults
from surehand.runtime.pipeline.pipeline import StackPlan


def commit(plan: StackPlan, proceed: NextStage, *, committed_results: CommittedResults) -> NextStage:
    """Left out for calls without a session, in a runtime without `on_commit`."""
    has_hook = committed_results.has_hook
    if not plan.has_session and not has_hook:
        return proceed
    plan.may_suspend = plan.may_suspend or has_hook

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        if isinstance(outcome, Pending):
            return outcome
        if has_hook:
            invocation.make_interruptible()
        await committed_results.commit(invocation, outcome)
        return outcome

    return stage
