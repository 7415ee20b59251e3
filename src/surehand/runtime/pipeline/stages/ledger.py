"""Ledger: the outcome of a call is written once, and never changes."""

from __future__ import annotations

import asyncio

from surehand.core.invoke import failed_from_crash
from surehand.core.outcome import Failed, Outcome, Pending, may_have_executed
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.runtime.pipeline.stages.intent import CALL_ENDED_FAILURE, needs_claim
from surehand.store.errors import StoreUnavailable


def ledger(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Never a Pending; and what did not happen may be tried again under the same id."""
    if not plan.is_recallable and not needs_claim(plan):
        return proceed
    plan.can_fold_into_invoke = False
    kept, name = plan.services.ledger, plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        try:
            outcome = await proceed(invocation)
        except asyncio.CancelledError:
            if invocation.may_have_run and invocation.answer_value is None:
                await end(invocation, _interruption_failure(invocation))
            elif invocation.has_given_id and not invocation.round:
                await kept.release(invocation)
            raise
        except Exception as bug:
            if not invocation.may_have_run:
                raise
            outcome = failed_from_crash(
                name, bug, redact=plan.services.redact, crash_details=plan.services.crash_details
            )
        if isinstance(outcome, Pending):
            return outcome
        if invocation.handler_outcome is not None:
            invocation.handler_outcome = (
                CALL_ENDED_FAILURE  # an outcome knows its call: a call that knew its outcome would be litter to collect
            )
        if (
            may_have_executed(outcome)
            or not (invocation.has_given_id or invocation.round)
            or invocation.round_answer is not None
        ):
            return await end(invocation, outcome)
        if not invocation.round:
            await kept.release(invocation)
        return outcome

    async def end(invocation: Invocation, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Pending) or (invocation.fence is None and not _is_remembered(invocation)):
            return outcome  # nobody claimed it, so nothing of it is kept
        try:
            return await kept.record_outcome(invocation, outcome)
        except StoreUnavailable as error:
            return _write_failure(name, error, invocation)

    return stage


def _interruption_failure(invocation: Invocation) -> Failed:
    """What its caller is told, where it is told anything."""
    code, message = invocation.interruption_reason or (
        "cancelled",
        f"{invocation.tool_name} was cancelled while it ran.",
    )
    return Failed(code, message, executed=True)


def _is_remembered(invocation: Invocation) -> bool:
    return invocation.has_given_id or invocation.is_resumed or bool(invocation.round)


def _write_failure(name: str, error: Exception, invocation: Invocation) -> Failed:
    """What cannot be acknowledged: it ran, and nobody would know after a restart."""
    if invocation.round_answer is not None:
        return Failed("unavailable", f"the answer could not be written down, and the call still waits: {error}")
    if invocation.fence is None:  # repeatable, so nobody had to claim it
        problem = f"{name} ran, but its outcome could not be written down: {error} It may be called again."
        return Failed("unavailable", problem, executed=True)
    return Failed(
        "unknown_effect",
        f"{name} ran, but its outcome could not be written down: {error} Do not repeat it; a person has to find out.",
        executed=True,
    )
