"""Stage `intent`: claim a call that is not repeatable in the ledger before it runs, so that it runs only once."""

from __future__ import annotations

from surehand.core.outcome import Failed, Outcome, Pending, may_have_executed
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.store.errors import StoreError, UnstorableValue

KINDS_WITHOUT_EFFECT = frozenset({"client", "external", "hosted", "internal"})
"""Kinds that have no effect in this process."""
CALL_ENDED_FAILURE = Failed("conflict", "the call has ended, and runs no second time.")
"""What middleware gets that calls `proceed` after its call has ended."""


def needs_claim(plan: StackPlan, *, is_durable: bool) -> bool:
    """Whether calls are claimed: with a configured store always, else if the id was given or the call was pending."""
    can_repeat = plan.listing.tool.repeatable or plan.listing.kind in KINDS_WITHOUT_EFFECT
    return not can_repeat and (plan.is_recallable or is_durable)


def intent(
    plan: StackPlan, proceed: NextStage, *, ledger: Ledger, repeated_calls: RepeatedCalls, is_durable: bool
) -> NextStage:
    """Inside `queue`: a call whose process dies while it waits for a slot has had no effect."""
    if not needs_claim(plan, is_durable=is_durable):
        return proceed
    name = plan.listing.name
    plan.may_suspend = plan.may_suspend or is_durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.resumption.answer is not None and invocation.claim.fence is None:
            return await proceed(invocation)  # the answer replaces running the handler
        # Middleware that calls `proceed` twice gets the same outcome twice.
        known_outcome = invocation.execution.outcome
        if known_outcome is not None:
            return known_outcome
        if invocation.claim.state in (ClaimState.CLAIMING, ClaimState.RUNNING):  # middleware calls it twice at once
            return _running_already(invocation)
        if is_durable:
            invocation.make_interruptible()
        try:
            has_claim = invocation.claim.is_held or await ledger.claim(invocation, unless_repeated=True)
            if not has_claim and invocation.stored.repeat_key is not None and not invocation.claim.is_busy:
                first = await repeated_calls.find_first(invocation)
                if first is not None:
                    return first.to_pending(name)
                has_claim = await ledger.claim(invocation)  # the first call has ended meanwhile, or runs elsewhere
        except StoreError as error:
            return _claim_failure(invocation, name, error)
        if not has_claim:
            if not invocation.claim.is_busy:
                invocation.move_claim(ClaimState.ELSEWHERE)
            return _running_already(invocation)
        invocation.move_claim(ClaimState.RUNNING)
        invocation.start_handler()  # `deadline` is left out for handlers that never await
        try:
            outcome = await proceed(invocation)
        finally:
            if invocation.claim.is_running:
                invocation.move_claim(ClaimState.CLAIMED)
        if not isinstance(outcome, Pending) and may_have_executed(outcome):
            invocation.set_single_run_outcome(outcome)
        return outcome

    return stage


def _running_already(invocation: Invocation) -> Pending:
    return Pending("result", invocation.id, f"{invocation.tool_name} is running already under this id.")


def _claim_failure(invocation: Invocation, name: str, error: StoreError) -> Outcome:
    """The outcome of a call that was not run because its claim could not be stored."""
    problem = f"{name} was not run, because it cannot be remembered: {error}"
    if isinstance(error, UnstorableValue):
        return Failed("invalid_arguments", problem)
    if invocation.is_resumed:  # the call was approved, and stays so
        invocation.move_claim(ClaimState.ELSEWHERE)
        return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
    return Failed("unavailable", problem)
