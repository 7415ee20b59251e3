"""Queue: wait for a slot, first come, first served. Waiting is not running, so no deadline counts here."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from surehand.core.events import CallQueued
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.limits.queues import ActiveQueue, QueueSlot, SlotFuture, enter_slot, find_held_slot, leave_slot
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.store.errors import StoreError

KINDS_WITHOUT_QUEUE = frozenset({"internal", "agent", "client", "external", "hosted"})
"""Kinds that never hold a slot: they wait for others, and could wait for themselves."""


def queue(plan: StackPlan, proceed: Proceed) -> Proceed:
    """None unless the tool, its provider or the default limit names one."""
    line = None if plan.listing.kind in KINDS_WITHOUT_QUEUE else plan.services.queues.queue_for(plan.listing)
    if line is None:
        return proceed
    plan.may_suspend = True
    nests = plan.listing.tool.handler is None or plan.listing.tool.handler.can_suspend

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer_value is not None:
            return await proceed(invocation)
        if (slot := find_held_slot(line)) is not None:
            return await _inside(invocation, slot)
        if not line.try_acquire():
            began, granted = perf_counter(), _enqueue(invocation, line)
            try:
                error = await granted
            except asyncio.CancelledError:
                line.abandon(granted)
                raise
            invocation.queued_seconds += perf_counter() - began
            if error is not None:
                return _queue_unreachable(invocation, line, error)
        if not nests:
            try:
                return await proceed(invocation)
            finally:
                line.release()
        token = enter_slot(line)
        try:
            return await proceed(invocation)
        finally:
            leave_slot(token)
            line.release()

    async def _inside(invocation: Invocation, slot: QueueSlot) -> Outcome:
        """A nested call runs in its ancestor's slot: taking another could wait for the ancestor itself."""
        invocation.make_interruptible()
        async with slot.nested_lock:
            if line.has_rate and (error := await line.wait_for_rate()) is not None:
                return _queue_unreachable(invocation, line, error)
            token = enter_slot(line)
            try:
                return await proceed(invocation)
            finally:
                leave_slot(token)

    return stage


def _enqueue(invocation: Invocation, active_queue: ActiveQueue) -> SlotFuture:
    tell = (
        partial(_emit_queued, invocation, active_queue.name) if invocation.scope.services.listeners.callbacks else None
    )
    invocation.make_interruptible()
    return active_queue.enqueue(tell)


def _emit_queued(invocation: Invocation, queue_name: str, position: int) -> None:
    parts = invocation.scope.services
    parts.listeners.emit(CallQueued(invocation.id, invocation.listing.name, queue_name, position, parts.clock.time()))


def _queue_unreachable(invocation: Invocation, active_queue: ActiveQueue, error: StoreError) -> Outcome:
    """The limit would not hold if the call ran all the same."""
    name = invocation.listing.name
    if not invocation.is_resumed or invocation.is_claimed or invocation.fence is None:
        return Failed(
            "unavailable", f"{name} was not run, because its queue {active_queue.name!r} cannot be reached: {error}"
        )
    from surehand.store.tables.ledger import return_to_ready_statement  # loaded by those alone who have a store

    parts, invocation.runs_elsewhere = invocation.scope.services, True  # somebody said yes, and that holds
    parts.ledger.write_retry.retry_later(
        invocation.id, [return_to_ready_statement(invocation.id, parts.owner_id, invocation.fence)]
    )
    return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
