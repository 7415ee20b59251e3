"""Cancelled runs: ends what a cancelled run of an agent has left open, its calls and the runs that these started.

A run is marked as cancelled first, so that no process goes on with it. If the process that cancels it dies before its
calls are ended, the store maintenance of any runtime ends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.core.call import Principal
from surehand.core.ids import derive_run_id
from surehand.runtime.pending.answer import Answer
from surehand.runtime.pending.call_resumer import CallResumer
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.store.store import Store

_PROBLEM = "the run that made this call was cancelled."


class CancelledRuns:
    """Cancels runs with all that they have started, in whatever process."""

    def __init__(self, store: RuntimeStore, call_resumer: CallResumer, running: RunningCalls) -> None:
        self._store = store
        self._call_resumer = call_resumer
        self._running = running

    async def cancel(self, run_id: str, reason: str, viewer: Principal) -> bool:
        """Cancel a run and end its calls; False if it has ended before, or the viewer may not see it."""
        store = await self._store.open()
        run = await store.runs.find(run_id)
        if run is None or viewer.user not in (None, run.user) or viewer.session not in (None, run.session):
            return False
        is_cancelled = await store.runs.cancel(run_id, reason)
        await self.end_calls(run_id)
        return is_cancelled

    async def end_calls(self, run_id: str) -> None:
        """End the calls of a run that was cancelled, and the runs that they started; nothing for any other run."""
        store = await self._store.open()
        run = await store.runs.find(run_id)
        if run is None or not run.is_cancelled:
            return
        running = {each.assigned_id: each for each in self._running.calls}
        for call_id in await store.steps.open_calls(run_id):
            if call_id in running:
                running[call_id].interrupt("cancelled", f"{running[call_id].tool_name}: {_PROBLEM}")
            await self.cancel(derive_run_id(call_id), run.reason or "", Principal())
            await self._end_waiting_call(store, call_id)
        await store.runs.close_cancelled(run_id)

    async def end_all_calls(self) -> None:
        """End the calls of runs that another process has cancelled, and then died, or whose own call was cancelled."""
        store = await self._store.open()
        for run_id in await store.runs.cancelled_with_open_calls():
            await self.end_calls(run_id)

    async def _end_waiting_call(self, store: Store, call_id: str) -> None:
        row = await store.pending.find(call_id)
        if row is None or self._call_resumer.find_in_progress(call_id) is not None:
            return
        if row.is_ready:
            refusal = Answer.refusal(row.rounds[-1], "cancel", "cancelled", _PROBLEM)
            await self._call_resumer.resume_ready_call(row, refusal)
            return
        wait = row.open_round
        if wait is None or row.call.state == "unknown":  # only a person can tell what an unknown effect was
            return
        if wait.inner_call_id is not None and wait.first_call_id is None:
            await self._end_waiting_call(store, wait.inner_call_id)  # this call then ends with it
            return
        refusal = Answer.refusal(wait, "cancel", "cancelled", _PROBLEM)
        await self._call_resumer.apply_answer(row, wait, refusal, Principal())
