"""Intent: a call that is not repeatable is claimed before it runs, so that it can run only once."""

from __future__ import annotations

from surehand.core.outcome import Failed, Outcome, Pending, may_have_executed
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.store.errors import StoreError, UnstorableValue

KINDS_WITHOUT_EFFECT = frozenset({"client", "external", "hosted", "internal"})
"""Kinds that do nothing here: they are asked for, shown, or only look."""
CALL_ENDED_FAILURE = Failed("conflict", "the call has ended, and runs no second time.")
"""What middleware is told that proceeds when its call is over."""


def needs_claim(plan: StackPlan) -> bool:
    """Whether calls of a tool are claimed: always with a store, else where an id was given or somebody was asked."""
    repeats = plan.listing.tool.repeatable or plan.listing.kind in KINDS_WITHOUT_EFFECT
    return not repeats and (plan.is_recallable or plan.services.is_durable)


def intent(plan: StackPlan, proceed: Proceed) -> Proceed:
    """After the queue, because a call that dies while it waits in line has had no effect."""
    if not needs_claim(plan):
        return proceed
    kept, name, durable = plan.services.ledger, plan.listing.name, plan.services.is_durable
    plan.may_suspend = plan.may_suspend or durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer_value is not None and invocation.fence is None:
            return await proceed(invocation)  # the answer takes the place of running
        if invocation.handler_outcome is not None:  # middleware that proceeds twice gets the same outcome twice
            return invocation.handler_outcome
        if durable:
            invocation.make_interruptible()
        try:
            mine = not invocation.is_handler_running and (invocation.is_claimed or await kept.claim(invocation))
        except StoreError as error:
            return _claim_failure(invocation, name, error)
        if not mine:
            invocation.runs_elsewhere = True
            return Pending("result", invocation.id, f"{name} is running already under this id.")
        invocation.is_claimed = True
        invocation.is_handler_running = invocation.may_have_run = (
            True  # also where no deadline says so: the handler never waits
        )
        try:
            outcome = await proceed(invocation)
        finally:
            invocation.is_handler_running = False
        if not isinstance(outcome, Pending) and may_have_executed(outcome):
            invocation.handler_outcome = outcome
        return outcome

    return stage


def _claim_failure(invocation: Invocation, name: str, error: StoreError) -> Outcome:
    """What cannot be remembered is not run."""
    problem = f"{name} was not run, because it cannot be remembered: {error}"
    if isinstance(error, UnstorableValue):
        return Failed("invalid_arguments", problem)
    if invocation.is_resumed:  # somebody said yes, and that holds
        invocation.runs_elsewhere = True
        return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
    return Failed("unavailable", problem)
