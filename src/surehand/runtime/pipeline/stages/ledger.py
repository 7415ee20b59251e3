"""Stage `ledger`: record the outcome of a call once. A Pending is not an outcome, and is never recorded."""

from __future__ import annotations

import asyncio

from surehand.core.outcome import Failed, Outcome, Pending, may_have_executed
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.pipeline.stages.intent import CALL_ENDED_FAILURE, needs_claim
from surehand.store.errors import StoreUnavailable


def ledger(
    plan: StackPlan,
    proceed: NextStage,
    *,
    ledger: Ledger,
    journal: StoreJournal,
    crash_report: CrashReport,
    is_durable: bool,
) -> NextStage:
    """Record what may have happened; a call that had no effect may be tried again under the same id."""
    if not plan.is_recallable and not needs_claim(plan, is_durable=is_durable):
        return proceed
    plan.can_fold_into_invoke = False
    name = plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        try:
            outcome = await proceed(invocation)
            if journal.has_unwritten_progress(invocation):
                await journal.write_progress(invocation)
        except asyncio.CancelledError:
            if invocation.is_repeatable_agent_call:
                await ledger.release(invocation)
            elif invocation.may_have_executed and invocation.resumption.answer is None:
                await end(invocation, _interruption_failure(invocation), is_interrupted=True)
            elif invocation.has_given_id and not invocation.resumption.round:
                await ledger.release(invocation)
            raise
        except Exception as bug:
            if not invocation.may_have_executed:
                raise
            outcome = crash_report.failure(name, bug)
        if isinstance(outcome, Pending):
            if outcome.call_id != invocation.id or invocation.execution.outcome is None:
                return outcome
            outcome = invocation.execution.outcome  # middleware ran the call twice at once, and dropped its outcome
        if invocation.execution.outcome is not None:
            # The outcome references its invocation: drop the reference back, which would make a cycle for the GC.
            invocation.set_single_run_outcome(CALL_ENDED_FAILURE)
        if may_have_executed(outcome) or invocation.is_new or invocation.claim.answer is not None:
            return await end(invocation, outcome)
        if not invocation.resumption.round:
            await ledger.release(invocation)
        return outcome

    async def end(invocation: Invocation, outcome: Outcome, *, is_interrupted: bool = False) -> Outcome:
        if isinstance(outcome, Pending) or (invocation.claim.fence is None and invocation.is_new):
            return outcome  # the call was not claimed, so the ledger has no row of it
        try:
            return await ledger.record_outcome(invocation, outcome, is_interrupted=is_interrupted)
        except StoreUnavailable as error:
            return _write_failure(name, error, invocation)

    return stage


def _interruption_failure(invocation: Invocation) -> Failed:
    """The outcome of a call that was cancelled while its handler ran."""
    if invocation.interruption_reason is not None:
        code, message = invocation.interruption_reason
        return Failed(code, message, executed=True)
    return Failed("cancelled", f"{invocation.tool_name} was cancelled while it ran.", executed=True)


def _write_failure(name: str, error: Exception, invocation: Invocation) -> Failed:
    """The outcome of a call that ran, but whose outcome could not be stored."""
    if invocation.claim.answer is not None:
        return Failed("unavailable", f"the answer could not be written down, and the call still waits: {error}")
    if invocation.claim.fence is None:  # a repeatable call, which needs no claim
        problem = f"{name} ran, but its outcome could not be written down: {error} It may be called again."
        return Failed("unavailable", problem, executed=True)
    return Failed(
        "unknown_effect",
        f"{name} ran, but its outcome could not be written down: {error} Do not repeat it; a person has to find out.",
        executed=True,
    )
