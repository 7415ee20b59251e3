"""Recall: a call id that is known already gives what is stored; the same id never runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.store.errors import UnstorableValue

if TYPE_CHECKING:
    from surehand.store.tables.ledger import LedgerRow

MAX_CALL_ID_LENGTH = 200


def recall(plan: StackPlan, proceed: Proceed) -> Proceed:
    """The stored outcome, the same open Pending, or a conflict that reveals nothing."""
    if not plan.is_recallable:
        return proceed
    parts = plan.services
    plan.may_suspend = plan.may_suspend or parts.is_durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.is_resumed or not invocation.has_given_id:
            return await proceed(invocation)
        if not isinstance(invocation.id, str):  # callers give anything
            invocation.assigned_id = None  # type: ignore[unreachable]
        if invocation.assigned_id is None or not 0 < len(invocation.assigned_id) <= MAX_CALL_ID_LENGTH:
            return Failed("invalid_arguments", f"A call id is a text of 1 to {MAX_CALL_ID_LENGTH} characters.")
        if parts.is_durable:
            invocation.make_interruptible()
        try:
            call = await parts.ledger.open_call(invocation)
        except UnstorableValue as error:
            return Failed("invalid_arguments", f"This call cannot be remembered under an id: {error}")
        if not parts.ledger.is_same_call(call, invocation):
            return Failed("conflict", "This call id belongs to another call. Use an id of your own for each call.")
        if call.owner is not None and call.owner != parts.owner_id and await parts.recover_dead_runtimes():
            call = await parts.ledger.find(call.call_id) or call  # its runtime had died
        if (known := await told(call)) is not None:
            invocation.is_journalled = True  # it is in the journal already, once
            return known
        return await proceed(invocation)

    async def told(call: LedgerRow) -> Outcome | None:
        if call.state in ("ended", "unknown"):
            return parts.ledger.stored_outcome(call)
        if call.state == "waiting":
            return await parts.pending_calls.current_outcome(call.call_id, Principal())
        if call.state in ("ready", "taken"):
            return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")
        if call.state == "running":
            return Pending("result", call.call_id, f"{call.tool} is running already under this id.")
        return None

    return stage
