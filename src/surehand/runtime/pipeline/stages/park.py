"""Stage `park`: store a pending call, so that it can be answered later and from any process."""

from __future__ import annotations

import asyncio
from math import isfinite
from typing import Any

from surehand.core.call import Principal
from surehand.core.fast_copy import copy_if_possible
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_call_writer import PendingCallWriter, TooManyPendingCalls
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.resumption import Resumptions
from surehand.runtime.pending.wait_refusal import WaitRefusal
from surehand.runtime.pipeline.pipeline import StackPlan, add_outcome_filter
from surehand.store.errors import UnstorableValue

_TOO_MANY_PENDING_MESSAGE = (
    "too many calls wait for a person already. Have some of them answered first, or cancel some."
)


def sanitize_pending(pending: Pending) -> Pending:
    """Replace invalid values in a Pending: a handler may put anything into it."""
    fields = pending.__dict__
    corrections: dict[str, Any] = {}
    if fields["waiting_for"] not in ("approval", "result", "input"):
        corrections["waiting_for"] = "result"
    for name in ("call_id", "message"):
        if not isinstance(fields[name], str):
            corrections[name] = ""
    expires_at = fields["expires_at"]
    if expires_at is not None and not (isinstance(expires_at, (int, float)) and isfinite(expires_at)):
        corrections["expires_at"] = None
    time_to_live = fields.get("time_to_live")
    if time_to_live is not None and not (isinstance(time_to_live, (int, float)) and time_to_live > 0):
        pending = pending.evolve()
        pending.__dict__["time_to_live"] = None
    return pending.evolve(**corrections) if corrections else pending


def park(
    plan: StackPlan,
    proceed: NextStage,
    *,
    writer: PendingCallWriter,
    pending_calls: PendingCalls,
    local: LocalPendingCalls,
    resumptions: Resumptions,
    ledger: Ledger,
    journal: StoreJournal,
    wait_refusal: WaitRefusal,
    is_durable: bool,
) -> NextStage:
    """Store pending calls; a caller that waits for the answer waits here, without a slot and without a deadline."""
    may_wait = plan.listing.kind in ("client", "external") or plan.listing.provider is not None
    plan.may_suspend = plan.may_suspend or may_wait or is_durable

    async def stage(invocation: Invocation) -> Outcome:
        return await park_outcome(invocation, await proceed(invocation))

    async def park_outcome(invocation: Invocation, outcome: Outcome) -> Outcome:
        """Store a Pending; any other outcome passes."""
        if not isinstance(outcome, Pending):
            # A call that was pending ends here, unless the stage `ledger` has recorded its outcome.
            is_unrecorded = invocation.resumption.round and not invocation.claim.is_recorded
            return await ledger.record_outcome(invocation, outcome) if is_unrecorded else outcome
        if not plan.may_suspend:  # else `validate` has copied them: they are stored after the first await below
            invocation.raw_arguments = copy_if_possible(invocation.raw_arguments)
        if is_durable:
            invocation.make_interruptible()
        outcome = sanitize_pending(outcome)
        if wait_refusal.describe is not None:
            problem = f"{invocation.tool_name} {wait_refusal.describe(outcome)}"
            return await end(invocation, Failed("unavailable", problem, executed=invocation.may_have_executed))
        ended = await pending_calls.ended_outcome(outcome.call_id, invocation.principal)
        if ended is None and outcome.run_id is not None:
            ended = await pending_calls.outcome_of_followed_run(outcome.run_id, invocation.principal)
        if ended is not None:
            return await end(invocation, ended)  # the nested call or run that it would wait for has ended meanwhile
        await journal.write_progress(invocation)
        try:
            pending_call = await writer.park(invocation, outcome)
        except UnstorableValue as error:
            problem = f"{invocation.tool_name} cannot wait for an answer: {error}"
            return await end(invocation, Failed("invalid_arguments", problem, executed=invocation.may_have_executed))
        except TooManyPendingCalls:
            problem = f"{invocation.tool_name} was not let wait: {_TOO_MANY_PENDING_MESSAGE}"
            return await end(invocation, Failed("limit_exceeded", problem, executed=invocation.may_have_executed))
        if not isinstance(pending_call, PendingCall):  # another invocation was first, and has its journal entry
            if not isinstance(pending_call, Pending):
                invocation.move_claim(ClaimState.KNOWN)
            return pending_call
        awaited_call_id = pending_call.request["follows"] if pending_call.is_following else outcome.call_id
        if awaited_call_id and await pending_calls.ended_outcome(awaited_call_id, invocation.principal):
            # The call that it waits for has ended while this one was stored.
            await resumptions.following_calls.end_following_calls(awaited_call_id)
        if outcome.run_id is not None:  # the run may have ended while this call was stored
            await resumptions.following_calls.end_calls_that_follow_run(outcome.run_id)
        if invocation.id not in local.invocations:  # it has ended already
            invocation.move_claim(ClaimState.KNOWN)
            return await pending_calls.current_outcome(invocation.id, Principal()) or pending_call.to_outcome()
        if may_wait and outcome.reply_timeout:
            is_answered = await local.wait_for_answer(invocation, outcome.reply_timeout)
            if is_answered and invocation.claim.is_lost:  # answered and ended by another process
                stored = await pending_calls.current_outcome(invocation.id, Principal())
                return stored or pending_call.to_outcome()
            if is_answered:
                return await resume(invocation)
        local.drop_arguments(invocation)
        return pending_call.to_outcome()

    async def end(invocation: Invocation, outcome: Outcome) -> Outcome:
        """Record the outcome of a call that cannot become pending; `ledger` let it pass as Pending."""
        has_row = invocation.claim.fence is not None or invocation.has_given_id
        if not has_row or isinstance(outcome, Pending):
            return outcome
        return await ledger.record_outcome(invocation, outcome)

    async def resume(invocation: Invocation) -> Outcome:
        try:
            return await stage(invocation)
        except asyncio.CancelledError:
            # The caller was cancelled after the answer was used. It cannot be used again, so the call ends here.
            if (
                invocation.may_have_executed
                and invocation.resumption.answer is None
                and not invocation.claim.is_recorded
            ):
                cancelled = Failed("cancelled", f"{invocation.tool_name} was cancelled while it ran.", executed=True)
                await ledger.record_outcome(invocation, cancelled, is_interrupted=True)
            raise

    return stage if may_wait or plan.is_recallable else add_outcome_filter(plan, proceed, park_outcome)
