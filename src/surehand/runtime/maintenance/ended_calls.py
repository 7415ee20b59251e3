"""Ended calls: tells the tasks of this process about calls that another process has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.running_calls import CallEnds
from surehand.store.database import Statement, to_storable_name

if TYPE_CHECKING:
    from surehand.store.store import Store

_SELECT_UNENDED_CALLS = "SELECT call_id FROM ledger WHERE state <> 'ended'"
_DELETE_INBOX_ITEM = "DELETE FROM inbox WHERE agent = :agent AND event_id = :event_id AND state = 'pending'"
ENDED_CALLS_PER_READ = 32
_ID_PARAMETERS = ", ".join(f":id_{number}" for number in range(ENDED_CALLS_PER_READ))
_SELECT_ENDED_CALLS = f"SELECT call_id FROM ledger WHERE state = 'ended' AND call_id IN ({_ID_PARAMETERS})"
# A call that failed before its handler ran has no outcome in the ledger, but an entry in the journal.
_SELECT_ENDED_OR_REFUSED_CALLS = f"""{_SELECT_ENDED_CALLS} UNION
    SELECT call_id FROM journal WHERE kind = 'ended' AND call_id IN ({_ID_PARAMETERS})"""


class EndedCalls:
    """Looks in the store for the ends of calls that tasks of this process wait for."""

    def __init__(self, store: Store, local: LocalPendingCalls, call_ends: CallEnds) -> None:
        self._store = store
        self._local = local
        self._call_ends = call_ends

    async def wake_waiting_callers(self) -> None:
        """Wake callers in this process whose calls were answered and ended in another one."""
        local = self._local
        waiting = [each for each in local.waiting_callers if each not in local.answers_in_progress]
        for call_id in await self._find_ended(waiting):
            caller = local.waiting_callers.get(call_id)
            if caller is None or caller.done() or (invocation := local.remove(call_id)) is None:
                continue
            invocation.move_claim(ClaimState.LOST_RACE)
            caller.set_result(True)
            # The other process could not know that the caller still waits, and put the result into the inbox too.
            params = {"agent": invocation.principal.agent or "", "event_id": f"tr:{call_id}"}
            await self._store.write([Statement(_DELETE_INBOX_ITEM, params)])

    async def wake_tasks_that_wait_for_ends(self) -> None:
        """Wake the tasks that wait for the end of a call, if another process has ended it."""
        call_ids = self._call_ends.awaited_call_ids
        for call_id in await self._find_ended(call_ids, _SELECT_ENDED_OR_REFUSED_CALLS):
            self._call_ends.notify(call_id)

    async def _find_ended(self, call_ids: list[str], query: str = _SELECT_ENDED_CALLS) -> list[str]:
        """Those of these calls that have ended, with one read for every batch of ids."""
        ended: list[str] = []
        for start in range(0, len(call_ids), ENDED_CALLS_PER_READ):
            batch = call_ids[start : start + ENDED_CALLS_PER_READ]
            # Always the same number of parameters, so that the database prepares one statement.
            padded = batch + batch[-1:] * (ENDED_CALLS_PER_READ - len(batch))
            params = {f"id_{number}": to_storable_name(call_id) for number, call_id in enumerate(padded)}
            ended += [row["call_id"] for row in await self._store.database.read(query, params)]
        return ended

    async def forget_ended_calls(self) -> None:
        """Forget pending calls of this process that another process has ended."""
        local = self._local
        known = set(local.invocations)
        if not known:
            return
        unended = {row["call_id"] for row in await self._store.database.read(_SELECT_UNENDED_CALLS)}
        in_use = local.answers_in_progress.keys() | local.waiting_callers.keys()
        for call_id in known - unended - in_use:
            invocation = local.invocations.get(call_id)
            if invocation is not None:
                local.on_call_ended(invocation)
