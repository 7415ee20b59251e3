"""Stage `recall`: a given call id that is known returns what is stored; the same id never runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.core.call import Principal
from surehand.core.ids import MAX_CALL_ID_LENGTH
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.call_record import StoredOutcomes, is_same_call
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import to_storable_name
from surehand.store.errors import UnstorableValue

if TYPE_CHECKING:
    from surehand.store.tables.ledger import LedgerRow


def recall(
    plan: StackPlan,
    proceed: NextStage,
    *,
    store: RuntimeStore,
    ledger: Ledger,
    outcomes: StoredOutcomes,
    pending_calls: PendingCalls,
) -> NextStage:
    """Return the stored outcome, the same Pending, or a conflict that reveals nothing about the other call."""
    if not plan.is_recallable:
        return proceed
    plan.may_suspend = plan.may_suspend or store.is_durable

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.is_resumed or not invocation.has_given_id:
            return await proceed(invocation)
        if not isinstance(invocation.id, str):  # callers pass values of any type
            invocation.drop_id()  # type: ignore[unreachable]
        if invocation.assigned_id is None or not 0 < len(invocation.assigned_id) <= MAX_CALL_ID_LENGTH:
            return Failed("invalid_arguments", f"A call id is a text of 1 to {MAX_CALL_ID_LENGTH} characters.")
        if to_storable_name(invocation.assigned_id) != invocation.assigned_id:
            return Failed("invalid_arguments", "A call id holds no NUL character and no lone surrogates.")
        if store.is_durable:
            invocation.make_interruptible()
        # Before the row is there: else the maintenance task could let go of it as one that no call has.
        with ledger.keep_open(invocation.assigned_id):
            return await recall_or_run(invocation)

    async def recall_or_run(invocation: Invocation) -> Outcome:
        try:
            call = await ledger.open_call(invocation)
        except UnstorableValue as error:
            return Failed("invalid_arguments", f"This call cannot be remembered under an id: {error}")
        if not is_same_call(call, invocation):
            return Failed("conflict", "This call id belongs to another call. Use an id of your own for each call.")
        is_claimed_elsewhere = call.state in ("taken", "running") and call.owner != store.owner_id
        if is_claimed_elsewhere and await store.recover_dead_runtimes():
            call = await outcomes.find(call.call_id) or call  # the runtime that owned it was dead
        outcome = await known_outcome(call)
        if outcome is None:
            return await proceed(invocation)
        invocation.move_claim(ClaimState.FOUND_RECORDED)
        return outcome

    async def known_outcome(call: LedgerRow) -> Outcome | None:
        """The outcome of a stored call; None if it has not run yet."""
        if call.state in ("ended", "unknown"):
            return outcomes.outcome_of(call)
        if call.state == "waiting":
            return await pending_calls.current_outcome(call.call_id, Principal())
        if call.state in ("ready", "taken"):
            return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")
        if call.state == "running":
            return Pending("result", call.call_id, f"{call.tool} is running already under this id.")
        return None

    return stage
