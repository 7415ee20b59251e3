"""Stage `queue`: wait for a slot of the tool's queue. The time in the queue does not count against the deadline."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.limits.admission import QueueRefusal
from surehand.runtime.limits.deadlocks import CURRENT_HOLD, waiting_for
from surehand.runtime.limits.queue_table import QueueTable
from surehand.runtime.limits.queues import ActiveQueue, QueueSlot, enter_slot, find_held_slot, leave_slot
from surehand.runtime.limits.waiting_calls import SlotFuture
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.store.errors import StoreError

KINDS_WITHOUT_QUEUE = frozenset({"internal", "agent", "client", "external", "hosted"})
"""Kinds that never hold a slot: they wait for other calls, and could deadlock."""


def queue(
    plan: StackPlan, proceed: NextStage, *, queues: QueueTable, reports: CallReports, ledger: Ledger
) -> NextStage:
    """Left out unless the tool, its provider or the default limit names a queue."""
    if plan.listing.kind in KINDS_WITHOUT_QUEUE:
        return proceed
    active_queue = queues.queue_for(plan.listing)
    if active_queue is None:
        return proceed
    plan.may_suspend = True
    may_nest = plan.listing.tool.handler is None or plan.listing.tool.handler.can_suspend

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.resumption.answer is not None:
            return await proceed(invocation)
        # Most calls have no outer call that could hold a slot.
        outer_slot = None if CURRENT_HOLD.get() is None else find_held_slot(active_queue)
        if outer_slot is not None:
            return await _run_nested(invocation, proceed, active_queue, outer_slot, ledger)
        if not active_queue.try_acquire():
            refusal = await _wait_for_slot(invocation, active_queue, reports, ledger)
            if refusal is not None:
                return refusal
        if not may_nest:
            try:
                return await proceed(invocation)
            finally:
                active_queue.release()
        slot, token = enter_slot(active_queue)
        try:
            return await proceed(invocation)
        finally:
            leave_slot(slot, token)
            active_queue.release()

    return stage


async def _wait_for_slot(
    invocation: Invocation, active_queue: ActiveQueue, reports: CallReports, ledger: Ledger
) -> Outcome | None:
    """Wait until the call holds a slot; the outcome if it is refused, or if the queue is unavailable."""
    priority = _priority_of(invocation)
    if not invocation.is_resumed:  # a person has approved it: it may wait
        refusal = active_queue.refusal(priority=priority, seconds_left=invocation.seconds_left())
        if refusal is not None:
            return _refuse(invocation, active_queue, refusal)
    with waiting_for(active_queue) as waits_in_vain:
        if waits_in_vain:
            return _deadlock_failure(invocation, active_queue)
        queued_at = perf_counter()
        slot_future = _enqueue(invocation, active_queue, priority, reports)
        try:
            error = await slot_future
        except asyncio.CancelledError:
            active_queue.abandon(slot_future)
            raise
    invocation.add_queued_seconds(perf_counter() - queued_at)
    return None if error is None else _queue_unreachable(invocation, active_queue, error, ledger)


async def _run_nested(
    invocation: Invocation, proceed: NextStage, active_queue: ActiveQueue, outer_slot: QueueSlot, ledger: Ledger
) -> Outcome:
    """Run a nested call in the slot of its outer call: waiting for another slot could deadlock."""
    invocation.make_interruptible()
    turn = outer_slot.nested_turn
    with waiting_for(turn) as waits_in_vain:
        if waits_in_vain:
            return _deadlock_failure(invocation, active_queue)
        await turn.lock.acquire()
    try:
        error = await active_queue.wait_for_rate() if active_queue.has_rate else None
        if error is not None:
            return _queue_unreachable(invocation, active_queue, error, ledger)
        slot, token = enter_slot(active_queue, turn)
        try:
            return await proceed(invocation)
        finally:
            leave_slot(slot, token, turn)
    finally:
        turn.lock.release()


def _refuse(invocation: Invocation, active_queue: ActiveQueue, refusal: QueueRefusal) -> Failed:
    """The outcome of a call that may not wait in the queue."""
    invocation.note_outcome_source("full queue")
    return Failed(
        "rate_limited",
        f"{invocation.listing.name} was not run, because its queue {active_queue.name!r} is full: {refusal.problem}. "
        f"Try again in {refusal.retry_after:g} s.",
        data={"queue": active_queue.name, "waiting": refusal.waiting, "retry_after": refusal.retry_after},
        retry_after=refusal.retry_after,
    )


def _deadlock_failure(invocation: Invocation, active_queue: ActiveQueue) -> Failed:
    """The outcome of a nested call that would wait for calls which wait for it."""
    return Failed(
        "limit_exceeded",
        f"{invocation.listing.name} was not run: all slots of its queue {active_queue.name!r} are held by calls that "
        "wait for the call that this one is part of. Call it when that one has ended.",
        data={"queue": active_queue.name},
    )


def _enqueue(invocation: Invocation, active_queue: ActiveQueue, priority: int, reports: CallReports) -> SlotFuture:
    has_listeners = bool(reports.listeners.callbacks)
    on_position = partial(reports.report_queued, invocation, active_queue.name) if has_listeners else None
    invocation.make_interruptible()
    return active_queue.enqueue(on_position, priority=priority)


def _priority_of(invocation: Invocation) -> int:
    """The priority of the call itself, else of its scope, else of its tool."""
    given = (invocation.request.priority, invocation.scope.priority)
    return next((value for value in given if value is not None), invocation.listing.tool.limits.priority)


def _queue_unreachable(invocation: Invocation, active_queue: ActiveQueue, error: StoreError, ledger: Ledger) -> Outcome:
    """The outcome of a call that was not run because its shared queue is unavailable."""
    name = invocation.listing.name
    if not invocation.is_resumed or invocation.claim.is_held or invocation.claim.fence is None:
        return Failed(
            "unavailable", f"{name} was not run, because its queue {active_queue.name!r} cannot be reached: {error}"
        )
    # The call was approved, and stays so: return the claim, so that a runtime resumes it later.
    invocation.move_claim(ClaimState.ELSEWHERE)
    ledger.return_to_ready_later(invocation)
    return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
