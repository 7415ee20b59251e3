"""Standing: how a call stands that is remembered under its id."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.durability.json_arguments import load_json_arguments
from surehand.runtime.pending.pending_calls import pending_call_from_row
from surehand.store.database import StoreError, UnexpectedRowCount, UnstorableValue
from surehand.store.serialization import serialize_outcome
from surehand.store.tables import ledger as rows
from surehand.store.tables import pending
from surehand.store.tables.ledger import LedgerState

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.services import RuntimeServices
    from surehand.store.tables.ledger import LedgerRow
    from surehand.store.tables.pending import PendingRound, PendingRow

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class CallStatus:
    """A call that is remembered: what came of it, or what it waits for."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome | None
    """None while it runs, or is about to."""
    round: int
    """Which of its questions is open; 0 if none is. Those of a call that it waits for count on from its own."""
    created_at: float
    changed_at: float
    """When it last began to wait, was answered, or ended."""
    state: LedgerState
    """The ledger's own word."""
    partial_answer: str = ""
    """What is known of an answer to the open question that is not whole yet, as whoever collects it wrote it down."""
    user: str | None = None
    """For whom it was made."""
    question: PendingCall | None = None
    """The open question, which is that of another call where this one waits for that."""


async def find_call_status(services: RuntimeServices, call_id: str, viewer: Principal) -> CallStatus | None:
    """How a call stands, for those who may know of it: to a stranger it looks like an unknown id."""
    if services.store is None:
        return None
    if (held := await services.pending_calls.find(call_id, viewer)) is not None:
        return await _status_of_waited_call(services, held, viewer)
    try:
        call = await services.ledger.find(call_id)
    except UnstorableValue:  # nothing was ever kept under such a name
        return None
    if call is None or not _can_see(call, viewer):
        return None
    return _build_status(services, call, call.created_at)


async def _status_of_waited_call(services: RuntimeServices, row: PendingRow, viewer: Principal) -> CallStatus:
    last, open_ = row.rounds[-1], await _find_open_question(services, row, viewer)
    made = _build_status(services, row.call, last.answered_at or last.created_at)
    if open_ is None or made.outcome is not None:
        return made
    asked = pending_call_from_row(open_.row, open_.pending_round)
    outcome = asked.to_outcome().evolve(call_id=made.call_id)
    return replace(
        made,
        outcome=outcome,
        round=open_.round_number,
        partial_answer=open_.pending_round.answer_value or "",
        question=asked,
    )


class _OpenQuestion(NamedTuple):
    row: PendingRow
    pending_round: PendingRound
    round_number: int


async def _find_open_question(services: RuntimeServices, row: PendingRow, viewer: Principal) -> _OpenQuestion | None:
    """The open question of a call, or of the one that it waits for in the end; None if that goes on."""
    number = 1
    while row.open_round is not None and row.call.call_id not in services.pending_calls.answers_in_progress:
        number += row.open_round.round - 1
        inner = row.open_round.inner_call_id
        found = None if inner is None else await services.pending_calls.find(inner, viewer)
        if found is None:
            return _OpenQuestion(row, row.open_round, number)
        row = found
    return None


def _build_status(services: RuntimeServices, call: LedgerRow, changed_at: float) -> CallStatus:
    outcome: Outcome | None = None
    if call.state in ("ended", "unknown"):
        outcome, changed_at = services.ledger.stored_outcome(call), call.ended_at or changed_at
    return CallStatus(
        call.call_id, call.tool, load_json_arguments(call.arguments), outcome, 0, call.created_at, changed_at, call.state,
        user=call.user_id,
    )  # fmt: skip


def _can_see(call: LedgerRow, viewer: Principal) -> bool:
    return viewer.user in (None, call.user_id) and (viewer.session is None or call.session in (None, viewer.session))


async def save_partial_answer(services: RuntimeServices, status: CallStatus, partial_answer: str) -> bool:
    """Write down what is known of an answer; false if somebody else has since the call was looked at."""
    if (asked := status.question) is None:
        return False
    store = await services.open_store()
    try:
        await store.write(
            [
                pending.save_partial_answer_statement(
                    asked.call_id, asked.round, partial_answer, previous_value=status.partial_answer
                )
            ]
        )
    except UnexpectedRowCount:
        return False
    return True


async def record_failed_call(services: RuntimeServices, call_id: str, outcome: Failed) -> None:
    """Write how a call under an id of its own came to nothing, which the ledger leaves open for another try."""
    try:
        store = await services.open_store()
        slim = () if services.is_durable else (rows.clear_arguments_statement(call_id),)
        await store.write([rows.end_unclaimed_statement(call_id, serialize_outcome(outcome)), *slim])
    except UnexpectedRowCount:
        return  # it was never remembered, or its end is written already
    except StoreError as error:
        log.warning("How call %s ended could not be written down: %s", call_id, error)


async def is_runtime_alive(services: RuntimeServices, owner_id: str) -> bool:
    """Whether a runtime is at work: this one, or another on the same store."""
    if owner_id == services.owner_id:
        return services.is_open
    if not services.is_durable or not owner_id:
        return False
    store = await services.open_store()
    return await store.owners.is_active(owner_id)
