"""Recall: a call id that is known already gives what is stored; the same id never runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.store.errors import Unstorable

if TYPE_CHECKING:
    from surehand.store.ledger import Known

LONGEST_ID = 200


def recall(plan: Plan, proceed: Proceed) -> Proceed:
    """The stored outcome, the same open Pending, or a conflict that reveals nothing."""
    if not plan.recallable:
        return proceed
    parts = plan.parts
    plan.suspends = plan.suspends or parts.durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.resumed or not invocation.given:
            return await proceed(invocation)
        if not isinstance(invocation.id, str):  # callers give anything
            invocation.known_id = None  # type: ignore[unreachable]
        if invocation.known_id is None or not 0 < len(invocation.known_id) <= LONGEST_ID:
            return Failed("invalid_arguments", f"A call id is a text of 1 to {LONGEST_ID} characters.")
        if parts.durable:
            invocation.suspend()
        try:
            call = await parts.ledger.open(invocation)
        except Unstorable as error:
            return Failed("invalid_arguments", f"This call cannot be remembered under an id: {error}")
        if not parts.ledger.stands_for(call, invocation):
            return Failed("conflict", "This call id belongs to another call. Use an id of your own for each call.")
        if call.owner is not None and call.owner != parts.owner and await parts.bury():
            call = await parts.ledger.find(call.call_id) or call  # its runtime had died
        if (known := await told(call)) is not None:
            invocation.journalled = True  # it is in the journal already, once
            return known
        return await proceed(invocation)

    async def told(call: Known) -> Outcome | None:
        if call.state in ("ended", "unknown"):
            return parts.ledger.said(call)
        if call.state == "waiting":
            return await parts.waits.state_of(call.call_id, Principal())
        if call.state in ("ready", "taken"):
            return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")
        if call.state == "running":
            return Pending("result", call.call_id, f"{call.tool} is running already under this id.")
        return None

    return stage
