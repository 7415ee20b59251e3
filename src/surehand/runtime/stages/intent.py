"""Intent: a call that is not repeatable is claimed before it runs, so that it can run only once."""

from __future__ import annotations

from surehand.core.outcome import Failed, Outcome, Pending, happened
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.store.errors import StoreError, Unstorable

HARMLESS = frozenset({"client", "external", "hosted", "internal"})
"""Kinds that do nothing here: they are asked for, shown, or only look."""
OVER = Failed("conflict", "the call has ended, and runs no second time.")
"""What middleware is told that proceeds when its call is over."""


def claims(plan: Plan) -> bool:
    """Whether calls of a tool are claimed: always with a store, else where an id was given or somebody was asked."""
    repeats = plan.listing.tool.repeatable or plan.listing.kind in HARMLESS
    return not repeats and (plan.recallable or plan.parts.durable)


def intent(plan: Plan, proceed: Proceed) -> Proceed:
    """After the queue, because a call that dies while it waits in line has had no effect."""
    if not claims(plan):
        return proceed
    kept, name, durable = plan.parts.ledger, plan.listing.name, plan.parts.durable
    plan.suspends = plan.suspends or durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer is not None and invocation.fence is None:
            return await proceed(invocation)  # the answer takes the place of running
        if invocation.ran is not None:  # middleware that proceeds twice gets the same outcome twice
            return invocation.ran
        if durable:
            invocation.suspend()
        try:
            mine = not invocation.busy and (invocation.claimed or await kept.claim(invocation))
        except StoreError as error:
            return _unclaimed(invocation, name, error)
        if not mine:
            invocation.elsewhere = True
            return Pending("result", invocation.id, f"{name} is running already under this id.")
        invocation.claimed = True
        invocation.busy = invocation.began = True  # also where no deadline says so: the handler never waits
        try:
            outcome = await proceed(invocation)
        finally:
            invocation.busy = False
        if not isinstance(outcome, Pending) and happened(outcome):
            invocation.ran = outcome
        return outcome

    return stage


def _unclaimed(invocation: Invocation, name: str, error: StoreError) -> Outcome:
    """What cannot be remembered is not run."""
    problem = f"{name} was not run, because it cannot be remembered: {error}"
    if isinstance(error, Unstorable):
        return Failed("invalid_arguments", problem)
    if invocation.resumed:  # somebody said yes, and that holds
        invocation.elsewhere = True
        return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
    return Failed("unavailable", problem)
