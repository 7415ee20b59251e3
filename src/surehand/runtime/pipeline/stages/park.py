"""Stage `park`: store a pending call, so that it can be answered later and from any process."""

from __future__ import annotations

import asyncio

from surehand.core.fast_copy import copy_if_possible
from surehand.core.outcome import Outcome, Pending
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pending.parking import Parking
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pipeline.pipeline import StackPlan, add_outcome_filter


def park(plan: StackPlan, proceed: NextStage, *, parking: Parking, ledger: Ledger, is_durable: bool) -> NextStage:
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
            invocation.detach_arguments(copy_if_possible(invocation.raw_arguments))
        if is_durable:
            invocation.make_interruptible()
        parked = await parking.store_or_end(invocation, outcome)
        if not isinstance(parked, PendingCall):
            return parked
        if not may_wait or not outcome.reply_timeout:
            return parking.to_caller_outcome(invocation, parked)
        answered = await parking.wait_for_answer(invocation, parked, outcome.reply_timeout)
        return await go_on(invocation) if answered is None else answered

    async def go_on(invocation: Invocation) -> Outcome:
        """Run the rest of the pipeline once more, with the answer."""
        try:
            return await stage(invocation)
        except asyncio.CancelledError:
            await parking.record_cancellation(invocation)
            raise

    return stage if may_wait or plan.is_recallable else add_outcome_filter(plan, proceed, park_outcome)
