"""Ledger: the outcome of a call is written once, and never changes."""

from __future__ import annotations

import asyncio

from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.ledger import happened
from toolwright.runtime.pipeline import Plan, Proceed


def ledger(plan: Plan, proceed: Proceed) -> Proceed:
    """Never a Pending; and what did not happen may be tried again under the same id."""
    if not plan.recallable:
        return proceed
    plan.bare = False
    kept, name = plan.parts.ledger, plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        try:
            outcome = await proceed(invocation)
        except asyncio.CancelledError:
            if invocation.began:
                kept.close(invocation.id, Failed("cancelled", f"{name} was cancelled while it ran.", executed=True))
            raise
        if isinstance(outcome, Pending) or not happened(outcome):
            return outcome
        return kept.close(invocation.id, outcome)

    return stage
