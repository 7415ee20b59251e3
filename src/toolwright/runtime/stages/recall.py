"""Recall: a call id that is known already gives what is stored; the same id never runs twice."""

from __future__ import annotations

from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.ledger import happened
from toolwright.runtime.pipeline import Plan, Proceed
from toolwright.runtime.plain import fingerprint

LONGEST_ID = 200


def recall(plan: Plan, proceed: Proceed) -> Proceed:
    """The stored outcome, the same open Pending, or a conflict that reveals nothing."""
    if not plan.recallable:
        return proceed
    waits, kept = plan.parts.waits, plan.parts.ledger

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.resumed or not invocation.given:
            return await proceed(invocation)
        if len(invocation.id) > LONGEST_ID:
            return Failed("invalid_arguments", f"A call id has at most {LONGEST_ID} characters.")
        if not kept.opened(invocation.id, fingerprint(invocation)):
            return Failed("conflict", "This call id belongs to another call. Use an id of your own for each call.")
        if (stored := kept.outcome(invocation.id)) is not None:
            return stored
        if (waiting := waits.open_wait(invocation.id)) is not None:
            return waiting.pending()
        outcome: Outcome | None = None
        try:
            outcome = await proceed(invocation)
        finally:
            if outcome is None or not (isinstance(outcome, Pending) or happened(outcome)):
                kept.nothing_came(invocation.id)
        return outcome

    return stage
