"""Park: Pending becomes a wait that somebody can answer. The only stage that knows how waits are kept."""

from __future__ import annotations

import asyncio

from toolwright.core.outcome import Outcome, Pending
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed, on_the_way_out


def park(plan: Plan, proceed: Proceed) -> Proceed:
    """Keep a pending call; a caller with patience waits here, holding no slot and no deadline."""
    waits = plan.parts.waits
    patient = plan.listing.kind in ("client", "external") or plan.listing.provider is not None
    plan.suspends = plan.suspends or patient

    async def stage(invocation: Invocation) -> Outcome:
        return await way_out(invocation, await proceed(invocation))

    async def way_out(invocation: Invocation, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Pending):
            if invocation.round:
                waits.finish(invocation, outcome)
            return outcome
        if (ended := waits.outcome_of(outcome.call_id, invocation.principal)) is not None:
            return ended  # the nested call that it would wait for has ended meanwhile
        wait = waits.park(invocation, outcome)
        if wait is None:
            return outcome
        if patient and outcome.patience and await waits.answered(invocation, outcome.patience):
            try:
                return await stage(invocation)
            except asyncio.CancelledError:
                waits.abandoned(invocation, wait)
                raise
        return wait.pending()

    return stage if patient or plan.recallable else on_the_way_out(plan, proceed, way_out)
