"""Park: Pending becomes a wait that somebody can answer. The only stage that knows how waits are kept."""

from __future__ import annotations

import asyncio
from math import isfinite
from typing import Any

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed, on_the_way_out
from surehand.runtime.waiting import WaitingCall
from surehand.runtime.waits import Crowded
from surehand.store.errors import Unstorable

_CROWDED = "too many calls wait for a person already. Have some of them answered first, or cancel some."


def sound(pending: Pending) -> Pending:
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


def park(plan: Plan, proceed: Proceed) -> Proceed:
    """Keep a pending call; a caller with patience waits here, holding no slot and no deadline."""
    parts, durable = plan.parts, plan.parts.durable
    patient = plan.listing.kind in ("client", "external") or plan.listing.provider is not None
    plan.suspends = plan.suspends or patient or durable

    async def stage(invocation: Invocation) -> Outcome:
        return await way_out(invocation, await proceed(invocation))

    async def way_out(invocation: Invocation, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Pending):
            # A call that has waited ends here, whatever it ends with; what happened is in the ledger already.
            waited = invocation.round and not invocation.closed
            return await parts.ledger.end(invocation, outcome) if waited else outcome
        if durable:
            invocation.suspend()
        outcome = sound(outcome)
        if (ended := await parts.waits.outcome_of(outcome.call_id, invocation.principal)) is not None:
            return await end(invocation, ended)  # the nested call that it would wait for has ended meanwhile
        try:
            wait = await parts.waits.park(invocation, outcome)
        except Unstorable as error:
            problem = f"{invocation.tool_name} cannot wait for an answer: {error}"
            return await end(invocation, Failed("invalid_arguments", problem, executed=invocation.began))
        except Crowded:
            problem = f"{invocation.tool_name} was not let wait: {_CROWDED}"
            return await end(invocation, Failed("limit_exceeded", problem, executed=invocation.began))
        if not isinstance(wait, WaitingCall):  # somebody else was first, and has told the journal
            invocation.journalled = True
            return wait
        if patient and outcome.patience and await parts.waits.answered(invocation, outcome.patience):
            if invocation.lost:  # answered and ended by another process
                invocation.journalled = True
                return await parts.waits.state_of(invocation.id, Principal()) or wait.pending()
            return await go_on(invocation)
        parts.waits.rest(invocation)
        return wait.pending()

    async def end(invocation: Invocation, outcome: Outcome) -> Outcome:
        """The ledger has let it pass as pending, but it will not wait."""
        kept = invocation.fence is not None or invocation.given
        return await parts.ledger.end(invocation, outcome) if kept and not isinstance(outcome, Pending) else outcome

    async def go_on(invocation: Invocation) -> Outcome:
        try:
            return await stage(invocation)
        except asyncio.CancelledError:
            # Its caller left after the answer was used: it cannot be used again, so that is how the call ends.
            if invocation.began and invocation.answer is None and not invocation.closed:
                left = Failed("cancelled", f"{invocation.tool_name} was cancelled while it ran.", executed=True)
                await parts.ledger.end(invocation, left)
            raise

    return stage if patient or plan.recallable else on_the_way_out(plan, proceed, way_out)
