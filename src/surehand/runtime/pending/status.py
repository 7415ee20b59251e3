"""Call status: looks up a stored call, its outcome or its open question.

Used by `Scope.status`, and by the gateway for MCP tasks, which also store partial answers here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, attach_origin
from surehand.runtime.durability.call_record import StoredOutcomes, stored_call
from surehand.runtime.invocation.json_arguments import load_json_arguments
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.pending.pending_calls import PendingCalls, pending_call_from_row
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import StoreError, UnexpectedRowCount, UnstorableValue
from surehand.store.serialization import serialize_outcome
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables import pending
from surehand.store.tables.ledger import LedgerState

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.store.tables.ledger import LedgerRow
    from surehand.store.tables.pending import PendingRound, PendingRow

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class CallStatus:
    """The status of a stored call: its outcome, or what it waits for."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome | None
    """Pending while it waits; None while it runs or is about to. `unknown_effect` while a person is asked about it."""
    round: int
    """Number of the open question, 0 if there is none. Questions of an inner call are numbered after its own."""
    created_at: float
    changed_at: float
    """When it last became pending, was answered or ended."""
    state: LedgerState
    """The state in the ledger."""
    partial_answer: str = ""
    """The incomplete answer to the open question, in the format of the caller that collects it."""
    user: str | None = None
    """The user for whom the call was made."""
    session: str | None = None
    agent: str | None = None
    turn: str | None = None
    """The run of an agent that the call belongs to."""
    question: PendingCall | None = None
    """The open question; that of the inner call, if this call waits for another one."""


class _OpenQuestion(NamedTuple):
    row: PendingRow
    pending_round: PendingRound
    round_number: int


class CallStatuses:
    """Looks up stored calls, for the users whose calls they are."""

    def __init__(
        self, store: RuntimeStore, pending_calls: PendingCalls, local: LocalPendingCalls, outcomes: StoredOutcomes
    ) -> None:
        self._store = store
        self._pending_calls = pending_calls
        self._local = local
        self._outcomes = outcomes

    async def find(self, call_id: str, viewer: Principal) -> CallStatus | None:
        """The status of a call that the viewer may see; None for any other call, as for an unknown id."""
        if self._store.current is None:
            return None
        row = await self._pending_calls.find(call_id, viewer)
        if row is not None:
            return await self._status_of_waited_call(row, viewer)
        try:
            call = await self._outcomes.find(call_id)
        except UnstorableValue:  # an id that cannot be stored was never stored
            return None
        if call is None or not _can_see(call, viewer):
            return None
        return self._build_status(call, call.created_at)

    async def _status_of_waited_call(self, row: PendingRow, viewer: Principal) -> CallStatus:
        """The status of a call that is or was pending."""
        last = row.rounds[-1]
        open_question = await self._find_open_question(row, viewer)
        status = self._build_status(row.call, last.answered_at or last.created_at)
        if open_question is None or status.state == "ended":
            return status
        question = pending_call_from_row(open_question.row, open_question.pending_round)
        outcome = status.outcome
        if outcome is None:
            outcome = question.to_outcome().evolve(call_id=status.call_id)
            attach_origin(outcome, stored_call(row.call))
        return replace(
            status,
            outcome=outcome,
            round=open_question.round_number,
            partial_answer=open_question.pending_round.answer_value or "",
            question=question,
        )

    async def _find_open_question(self, row: PendingRow, viewer: Principal) -> _OpenQuestion | None:
        """The open question of a call, or of the innermost call that it waits for; None if there is none."""
        number = 1
        while row.open_round is not None and row.call.call_id not in self._local.answers_in_progress:
            number += row.open_round.round - 1
            inner_call_id = row.open_round.inner_call_id
            inner = None if inner_call_id is None else await self._pending_calls.find(inner_call_id, viewer)
            if inner is None:
                return _OpenQuestion(row, row.open_round, number)
            row = inner
        return None

    def _build_status(self, call: LedgerRow, changed_at: float) -> CallStatus:
        """The status of a call without its open question."""
        outcome: Outcome | None = None
        if call.state in ("ended", "unknown"):
            outcome = self._outcomes.outcome_of(call)
            changed_at = call.ended_at or changed_at
        return CallStatus(
            call_id=call.call_id,
            tool=call.tool,
            arguments=load_json_arguments(call.arguments),
            outcome=outcome,
            round=0,
            created_at=call.created_at,
            changed_at=changed_at,
            state=call.state,
            user=call.user_id,
            session=call.session,
            agent=call.agent,
            turn=json.loads(call.context).get("turn"),
        )

    async def save_partial_answer(self, status: CallStatus, partial_answer: str) -> bool:
        """Store an incomplete answer; False if another one was stored since the status was read."""
        question = status.question
        if question is None:
            return False
        store = await self._store.open()
        save = pending.save_partial_answer_statement(
            question.call_id, question.round, partial_answer, previous_value=status.partial_answer
        )
        try:
            await store.write([save])
        except UnexpectedRowCount:
            return False
        return True

    async def record_failed_call(self, call_id: str, outcome: Failed) -> None:
        """Record the failure of a call that never ran; without this, the ledger lets the same id be tried again."""
        try:
            store = await self._store.open()
            clear = () if self._store.is_durable else (ledger_table.clear_arguments_statement(call_id),)
            await store.write([ledger_table.end_unclaimed_statement(call_id, serialize_outcome(outcome)), *clear])
        except UnexpectedRowCount:
            return  # the call was never stored, or has its outcome already
        except StoreError as error:
            log.warning("The failure of call %s could not be stored: %s", call_id, error)


def _can_see(call: LedgerRow, viewer: Principal) -> bool:
    return viewer.user in (None, call.user_id) and (viewer.session is None or call.session in (None, viewer.session))
