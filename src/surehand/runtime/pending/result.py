"""Result: waits for the end of a call, in this process or in another one. Used by `Scope.result`."""

from __future__ import annotations

import asyncio
from typing import cast

from surehand.core.call import Principal
from surehand.core.clock import wake
from surehand.core.errors import FAILURE_CODES, FailureCode
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.pending.pending_calls import PendingCalls, pending_call_from_row
from surehand.runtime.pending.status import CallStatus, CallStatuses
from surehand.runtime.running_calls import InterruptibleCall, RunningCalls
from surehand.runtime.runtime_store import RuntimeStore


class CallResults:
    """Waits for the outcomes of calls, for the users whose calls they are."""

    def __init__(
        self, store: RuntimeStore, pending_calls: PendingCalls, statuses: CallStatuses, running: RunningCalls
    ) -> None:
        self._store = store
        self._pending_calls = pending_calls
        self._statuses = statuses
        self._running = running

    async def wait(self, call_id: str, viewer: Principal, *, timeout_seconds: float | None) -> Outcome:
        """The outcome of a call that has ended or ends in time; else the Pending, or `not_found` for an unknown id."""
        clock = self._running.clock
        started_at = clock.time()
        while True:
            # Register first: a call that ends while the store is read wakes the waiter.
            waiter = self._running.ends.add_waiter(call_id)
            try:
                known = await self._find_outcome(call_id, viewer)
                if known is None:
                    return Failed("not_found", f"No call {call_id[:80]} is known.")
                if not isinstance(known, Pending):
                    return known
                seconds_left = None
                if timeout_seconds is not None:
                    seconds_left = timeout_seconds - (clock.time() - started_at)
                if seconds_left is not None and seconds_left <= 0:
                    return known
                if self._running.is_closed():
                    return Failed("unavailable", f"The runtime closed before call {call_id} ended.")
                outcome = await self._wait_for_end(waiter, seconds_left)
            finally:
                self._running.ends.remove_waiter(call_id, waiter)
            # A call that the store does not know is not found there: its outcome is what it ended with here.
            if outcome is not None and not isinstance(outcome, Pending):
                stored = await self._find_stored_outcome(call_id, viewer)
                return outcome if stored is None or isinstance(stored, Pending) else stored

    async def _wait_for_end(self, waiter: asyncio.Future[Outcome | None], seconds: float | None) -> Outcome | None:
        timer = None if seconds is None else self._running.clock.call_later(seconds, wake, waiter)
        try:
            return await waiter
        finally:
            if timer is not None:
                timer.cancel()

    async def _find_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call, a Pending while it has none, or None if the viewer may not see such a call."""
        running = self._find_running_call(call_id, viewer)  # first: it may end while the store is read
        stored = await self._find_stored_outcome(call_id, viewer)
        if stored is not None:
            return stored
        return None if running is None else Pending("result", call_id, f"{running.tool_name} is running.")

    def _find_running_call(self, call_id: str, viewer: Principal) -> InterruptibleCall | None:
        return next((call for call in self._running.visible_to(viewer) if call.assigned_id == call_id), None)

    async def _find_stored_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        status = await self._statuses.find(call_id, viewer)
        if status is None:
            return None
        if status.state == "ended" or isinstance(status.outcome, Pending):
            return status.outcome
        if status.state == "unknown":
            row = await self._pending_calls.find(call_id, viewer)
            if row is not None and row.open_round is not None:
                return pending_call_from_row(row, row.open_round).to_outcome()
        if status.state == "idle" and self._find_running_call(call_id, viewer) is None:
            return await self._outcome_without_effect(status)
        progress = "was answered and goes on" if status.state in ("ready", "taken") else "is running"
        return Pending("result", call_id, f"{status.tool} {progress}.")

    async def _outcome_without_effect(self, status: CallStatus) -> Outcome:
        """The failure of a call that ended before its handler ran; a Pending if another process may still run it."""
        code: FailureCode = "interrupted"
        store = self._store.current
        if self._store.is_durable and store is not None:
            ended = [entry for entry in await store.journal.of_call(status.call_id) if entry.kind == "ended"]
            if not ended:
                return Pending("result", status.call_id, f"{status.tool} has not ended.")
            code = cast(FailureCode, ended[-1].status) if ended[-1].status in FAILURE_CODES else code
        call_id = status.call_id
        problem = f"{status.tool} ended without an effect ({code}). It may be called again under the id {call_id}."
        return Failed(code, problem)
