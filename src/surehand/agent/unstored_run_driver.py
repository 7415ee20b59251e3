"""UnstoredRunDriver: drives runs that only this process knows, because the runtime has no store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from surehand.agent.run import Run, build_run
from surehand.agent.run_driver import AgentDefinition, RunDriver, UnknownRun
from surehand.agent.run_state import RunState
from surehand.agent.run_storage import MessageKind, RunLost, SentMessage, UnstoredRun
from surehand.agent.steps import has_ended

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.sources import AgentSource

MAX_ENDED_RUNS = 1_000
"""How many runs that ended without a store an agent remembers."""


@dataclass(slots=True)
class UnstoredRuns:
    """The runs of an agent that only this process knows."""

    open: dict[str, UnstoredRun] = field(default_factory=dict)
    """Runs that go on or wait."""
    ended: dict[str, tuple[RunState, Run]] = field(default_factory=dict)
    """The last runs that have ended."""

    def find_state(self, run_id: str) -> RunState | None:
        """The state of a run that goes on, waits or has ended; None for an unknown one."""
        if run_id in self.open:
            return self.open[run_id].state
        return self.ended[run_id][0] if run_id in self.ended else None

    def end(self, state: RunState, run: Run) -> None:
        """Keep the result of a run in place of the run itself."""
        self.open.pop(run.id, None)
        self.ended[run.id] = replace(state, prompt=[], steps=[]), run
        while len(self.ended) > MAX_ENDED_RUNS:
            del self.ended[next(iter(self.ended))]


class UnstoredRunDriver(RunDriver):
    """Drives the runs that only this process knows."""

    def __init__(self, agent: AgentDefinition, source: AgentSource, runtime: Scope, runs: UnstoredRuns) -> None:
        super().__init__(agent, source, runtime)
        self._runs = runs

    async def _start(self, state: RunState) -> Run:
        known = self._runs.find_state(state.run_id)
        if known is not None:
            self._require_same_owner(state, known)
        else:
            self._runs.open[state.run_id] = UnstoredRun(state)
        return await self.resume(state.run_id)

    async def resume(self, run_id: str) -> Run:
        state = self._find_state(run_id)
        record = self._runs.open.get(run_id)
        if record is not None:
            async with record.lock:  # another task of this program may drive it
                if run_id in self._runs.open:
                    hooks = self._build_hooks(record.state)
                    try:
                        with record.stop_on_cancel():
                            run = await self._drive(record.state, record, hooks)
                    except RunLost:  # it was cancelled
                        run = self._report_again(run_id)
                        await hooks.call("on_complete", run)
                        return run
                    if run.status != "waiting":
                        self._runs.end(state, run)
                    return run
        return self._report_again(run_id)

    async def resume_if_free(self, run_id: str) -> Run | None:
        record = self._runs.open.get(run_id)
        return None if record is None or record.lock.locked() else await self.resume(run_id)

    async def give_up(self, run_id: str, reason: str) -> None:
        """Leave the run as it is: no worker drives a run without a store."""

    async def cancel(self, run_id: str, reason: str) -> bool:
        state = self._find_state(run_id)
        record = self._runs.open.get(run_id)
        if record is None:
            return False
        run = await build_run(await self._open_scope(state), state, "stopped", reason=reason)
        self._runs.end(state, run)
        if not record.cancel():
            self._report(run, state.user, state.session)
            await self._complete(state, run)
        await self._cancel_calls(record.state)
        return True

    async def _cancel_calls(self, state: RunState) -> None:
        running = [each.assigned_id for each in self.runtime.running_calls() if each.principal.turn == state.run_id]
        waiting = [call.call_id for step in state.steps for call in step.calls if not has_ended(call)]
        for call_id in dict.fromkeys([*running, *waiting]):
            if call_id is not None:
                await self.runtime.cancel(call_id)

    async def _send_if_open(self, run_id: str, kind: MessageKind, text: Any) -> bool:
        self._find_state(run_id)
        if run_id in self._runs.ended:
            return False
        self._runs.open[run_id].messages.append(SentMessage(kind, text))
        return True

    def _find_state(self, run_id: str) -> RunState:
        state = self._runs.find_state(run_id)
        if state is None or not self._may_see(state.user, state.session):
            raise UnknownRun(f"The agent {self._agent.name} has no run {run_id!r} here.")
        return state

    def _report_again(self, run_id: str) -> Run:
        state, run = self._runs.ended[run_id]
        return self._report(run, state.user, state.session)
