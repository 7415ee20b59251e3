"""Park: Pending becomes a wait that somebody can answer. The only stage that knows how waits are kept."""

from __future__ import annotations

import asyncio
from math import isfinite
from typing import Any

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_calls import TooManyPendingCalls
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan, add_outcome_filter
from surehand.store.errors import UnstorableValue

_TOO_MANY_PENDING_MESSAGE = (
    "too many calls wait for a person already. Have some of them answered first, or cancel some."
)


def sanitize_pending(pending: Pending) -> Pending:
    """A handler may put anything into a Pending; what means nothing is left out."""
    given = pending.__dict__
    wrong: dict[str, Any] = {}
    if given["waiting_for"] not in ("approval", "result", "input"):
        wrong["waiting_for"] = "result"
    for name in ("call_id", "message"):
        if not isinstance(given[name], str):
            wrong[name] = ""
    if (until := given["expires_at"]) is not None and not (isinstance(until, (int, float)) and isfinite(until)):
        wrong["expires_at"] = None
    return pending.evolve(**wrong) if wrong else pending


def park(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Keep a pending call; a caller with patience waits here, holding no slot and no deadline."""
    parts, durable = plan.services, plan.services.is_durable
    patient = plan.listing.kind in ("client", "external") or plan.listing.provider is not None
    plan.may_suspend = plan.may_suspend or patient or durable

    async def stage(invocation: Invocation) -> Outcome:
        return await way_out(invocation, await proceed(invocation))

    async def way_out(invocation: Invocation, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Pending):
            # A call that has waited ends here, whatever it ends with; what happened is in the ledger already.
            waited = invocation.round and not invocation.is_outcome_recorded
            return await parts.ledger.record_outcome(invocation, outcome) if waited else outcome
        if durable:
            invocation.make_interruptible()
        outcome = sanitize_pending(outcome)
        if (ended := await parts.pending_calls.ended_outcome(outcome.call_id, invocation.principal)) is not None:
            return await end(invocation, ended)  # the nested call that it would wait for has ended meanwhile
        try:
            wait = await parts.pending_calls.park(invocation, outcome)
        except UnstorableValue as error:
            problem = f"{invocation.tool_name} cannot wait for an answer: {error}"
            return await end(invocation, Failed("invalid_arguments", problem, executed=invocation.may_have_run))
        except TooManyPendingCalls:
            problem = f"{invocation.tool_name} was not let wait: {_TOO_MANY_PENDING_MESSAGE}"
            return await end(invocation, Failed("limit_exceeded", problem, executed=invocation.may_have_run))
        if not isinstance(wait, PendingCall):  # somebody else was first, and has told the journal
            invocation.is_journalled = True
            return wait
        if (
            patient
            and outcome.reply_timeout
            and await parts.pending_calls.wait_for_answer(invocation, outcome.reply_timeout)
        ):
            if invocation.has_lost_race:  # answered and ended by another process
                invocation.is_journalled = True
                return await parts.pending_calls.current_outcome(invocation.id, Principal()) or wait.to_outcome()
            return await go_on(invocation)
        parts.pending_calls.drop_arguments(invocation)
        return wait.to_outcome()

    async def end(invocation: Invocation, outcome: Outcome) -> Outcome:
        """The ledger has let it pass as pending, but it will not wait."""
        kept = invocation.fence is not None or invocation.has_given_id
        return (
            await parts.ledger.record_outcome(invocation, outcome)
            if kept and not isinstance(outcome, Pending)
            else outcome
        )

    async def go_on(invocation: Invocation) -> Outcome:
        try:
            return await stage(invocation)
        except asyncio.CancelledError:
            # Its caller left after the answer was used: it cannot be used again, so that is how the call ends.
            if invocation.may_have_run and invocation.answer_value is None and not invocation.is_outcome_recorded:
                left = Failed("cancelled", f"{invocation.tool_name} was cancelled while it ran.", executed=True)
                await parts.ledger.record_outcome(invocation, left)
            raise

    return stage if patient or plan.is_recallable else add_outcome_filter(plan, proceed, way_out)
