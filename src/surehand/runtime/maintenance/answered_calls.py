"""Answered calls: continues calls that were answered in another process or before a restart, and ends others.

These are overdue, or wait for a call or run that has ended, or belong to a run that was cancelled.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from surehand.core.call import Principal
from surehand.runtime.pending.answers import Answers
from surehand.runtime.pending.call_resumer import CallResumer
from surehand.runtime.pending.cancelled_runs import CancelledRuns
from surehand.runtime.pending.restored_call import RestoredCalls
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
READY_CALLS_PER_READ = 100
# The partial index of calls that have not ended is used only by a query that repeats its condition `<> 'ended'`.
_SELECT_READY_CALLS = """SELECT call_id FROM ledger WHERE state = 'ready' AND state <> 'ended' AND call_id > :after
    ORDER BY call_id LIMIT :most"""
_SELECT_OPEN_INPUT_REQUESTS = (
    "SELECT call_id FROM pending WHERE state = 'open' AND waiting_for = 'input' ORDER BY call_id LIMIT 1000"
)


class AnsweredCalls:
    """Looks in the store for calls that this process can continue or has to end."""

    def __init__(
        self,
        store: Store,
        answers: Answers,
        call_resumer: CallResumer,
        restored_calls: RestoredCalls,
        cancelled_runs: CancelledRuns,
    ) -> None:
        self._store = store
        self._answers = answers
        self._call_resumer = call_resumer
        self._restored_calls = restored_calls
        self._cancelled_runs = cancelled_runs
        self._ready_cursor = ""
        self._unreadable_calls: set[str] = set()

    async def resume_ready_calls(self) -> None:
        """Start to resume answered calls whose tools this process has."""
        rows = await self._store.database.read(
            _SELECT_READY_CALLS, {"after": self._ready_cursor, "most": READY_CALLS_PER_READ}
        )
        call_ids = [row["call_id"] for row in rows]
        self._ready_cursor = call_ids[-1] if len(call_ids) == READY_CALLS_PER_READ else ""
        for call_id in call_ids:
            if call_id not in self._unreadable_calls:
                await self._resume_ready_call(call_id)

    async def _resume_ready_call(self, call_id: str) -> None:
        """Resume one answered call; an unreadable row must not stop the others."""
        try:
            row = await self._store.pending.find(call_id)
            if row is not None:
                self._call_resumer.start_ready_call(row)
        except StoreError:
            raise
        except Exception:
            self._unreadable_calls.add(call_id)  # skip it from now on, and log it once
            log.exception("The answered call %s cannot be resumed: its stored row is unreadable", call_id)

    async def end_overdue_calls(self) -> None:
        """End overdue pending calls, calls whose inner call or run has ended, and those of cancelled runs."""
        await self._answers.expire_overdue_calls()
        await self._cancelled_runs.end_all_calls()
        for call_id in await self._store.pending.find_ended_inner_calls():
            await self._call_resumer.following_calls.end_following_calls(call_id)
        for call_id in await self._store.pending.find_released_inner_calls():
            await self._call_resumer.following_calls.end_calls_that_follow_nothing(call_id)
        for run_id in await self._store.pending.find_ended_inner_runs():
            await self._call_resumer.following_calls.end_calls_that_follow_run(run_id)

    async def end_lost_input_requests(self) -> None:
        """End input requests whose provider can no longer accept an answer."""
        for found in await self._store.database.read(_SELECT_OPEN_INPUT_REQUESTS):
            call_id = found["call_id"]
            row = await self._store.pending.find(call_id)
            listing = self._restored_calls.find_listing(row) if row is not None else None
            connection_bound = listing.abilities.connection_bound if listing is not None else None
            if row is None or connection_bound is None or call_id in self._unreadable_calls:
                continue
            failure = connection_bound.resume_failure(row.provider_state)
            if failure is not None:
                await self._answers.end_without_answer(Principal(), call_id, failure.code, failure.message)
