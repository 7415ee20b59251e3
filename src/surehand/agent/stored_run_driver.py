"""StoredRunDriver: drives runs in a store, each under a claim, so that one process at a time goes on with a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from surehand.agent.limits import Spent
from surehand.agent.run import Run, RunStatus, build_run
from surehand.agent.run_driver import AgentDefinition, RunDriver, UnknownRun
from surehand.agent.run_origin import RunOrigin
from surehand.agent.run_state import RunState
from surehand.agent.run_storage import MessageKind, RunLost, StoredRun
from surehand.agent.steps import Step
from surehand.core.ids import is_run_of_call
from surehand.store.tables.runs import RunClaim, RunRow

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.sources import AgentSource
    from surehand.store.store import Store

POLL_SECONDS = 0.25
"""How often a caller looks whether the process that drives its run has ended it."""


class StoredRunDriver(RunDriver):
    """Drives the runs of an agent in a store.

    Args:
        driven: the runs that this process drives now, by id; the agent keeps them for all its drivers.
    """

    def __init__(
        self,
        agent: AgentDefinition,
        source: AgentSource,
        runtime: Scope,
        store: Store,
        driven: dict[str, StoredRun],
    ) -> None:
        super().__init__(agent, source, runtime)
        self._store = store
        self._driven = driven

    async def _start(self, state: RunState) -> Run:
        begun = await self._store.runs.begin(
            state.run_id,
            state.agent,
            state.prompt,
            owner=self.runtime.runtime_id,
            user=state.user,
            session=state.session,
            context=state.origin.to_json(),
        )
        if isinstance(begun, RunClaim):
            try:
                return await self._drive_claimed(begun, state)
            except RunLost:  # it was too slow to renew its claim, and another process goes on
                return await self.resume(state.run_id)
        self._require_same_owner(state, _state_from_row(begun))
        return await self.resume(state.run_id)

    async def resume(self, run_id: str) -> Run:
        while True:
            row = await self._find_row(run_id)
            if row.has_ended:
                return await self._report_ended(row)
            claim = await self._store.runs.claim(run_id, owner=self.runtime.runtime_id)
            if claim is not None:
                try:
                    return await self._drive_reclaimed(claim)
                except RunLost:  # it was too slow to renew its claim, and another process goes on
                    continue
            await self.runtime.clock.sleep(POLL_SECONDS)

    async def resume_if_free(self, run_id: str) -> Run | None:
        await self._find_row(run_id)
        claim = await self._store.runs.claim(run_id, owner=self.runtime.runtime_id)
        try:
            return None if claim is None else await self._drive_reclaimed(claim, has_caller=False)
        except RunLost:  # another process goes on with it, or it was cancelled
            return None

    async def give_up(self, run_id: str, reason: str) -> None:
        await self._find_row(run_id)
        claim = await self._store.runs.claim(run_id, owner=self.runtime.runtime_id)
        if claim is None:
            return
        state = _state_from_row(claim.run)
        state.steps = await _load_steps(self._store, run_id)
        report = {"text": state.last_text, "output": None}
        if await self._store.runs.save(claim, "failed", report=report, reason=reason):
            run = await build_run(self.runtime, state, "failed", reason=reason)
            self._report(run, state.user, state.session)
            await self._complete(state, run)
            await self.runtime.end_calls_that_follow_run(run_id)

    async def cancel(self, run_id: str, reason: str) -> bool:
        row = await self._find_row(run_id)
        record = self._driven.get(run_id)
        if not await self.runtime.cancel_run(run_id, reason):
            return False
        if record is not None:
            record.abandon()  # another process notices within a second
        if not await self._has_live_driver(row):  # nothing drives it that could tell
            run = await self._report_ended(await self._find_row(run_id))
            await self._complete(_state_from_row(row), run)
        await self.runtime.end_calls_that_follow_run(run_id)
        return True

    async def _has_live_driver(self, row: RunRow) -> bool:
        return row.owner is not None and row.owner in await self._store.database.live_owners([row.owner])

    async def _send_if_open(self, run_id: str, kind: MessageKind, text: Any) -> bool:
        await self._find_row(run_id)
        return await self._store.runs.send(run_id, kind, text)

    async def _drive_reclaimed(self, claim: RunClaim, *, has_caller: bool = True) -> Run:
        state = _state_from_row(claim.run)
        if await self._lost_its_caller(state):
            await self.runtime.cancel_run(claim.run_id, "The run that started this one was cancelled.")
            await self._complete(state, await self._build_ended(await self._find_row(claim.run_id)))
            raise RunLost
        state.steps = await _load_steps(self._store, claim.run_id)
        return await self._drive_claimed(claim, state, has_caller=has_caller)

    async def _drive_claimed(self, claim: RunClaim, state: RunState, *, has_caller: bool = True) -> Run:
        record = StoredRun(self._store, claim, goes_on_elsewhere=lambda: not (has_caller and self.runtime.is_open))
        hooks = self._build_hooks(state)
        self._driven[claim.run_id] = record
        try:
            async with record.keep_claimed():
                run = await self._drive(state, record, hooks)
        except RunLost:
            row = await self._store.runs.find(claim.run_id)
            if row is not None and row.is_cancelled:  # with the calls that this process has made meanwhile
                await self.runtime.cancel_run(row.run_id, row.reason or "")
                await hooks.call("on_complete", await self._build_ended(row))
            raise
        finally:
            if self._driven.get(claim.run_id) is record:
                del self._driven[claim.run_id]
        if run.status != "waiting" and is_run_of_call(run.id):
            await self.runtime.end_calls_that_follow_run(run.id)
        return run

    async def _lost_its_caller(self, state: RunState) -> bool:
        """Whether the run was started by a call of a run that was cancelled."""
        parent = None if state.origin.parent_run is None else await self._store.runs.find(state.origin.parent_run)
        return parent is not None and parent.is_cancelled

    async def _find_row(self, run_id: str) -> RunRow:
        row = await self._store.runs.find(run_id)
        if row is None or row.agent != self._agent.name or not self._may_see(row.user, row.session):
            raise UnknownRun(f"The agent {self._agent.name} has no run {run_id!r}.")
        return row

    async def _report_ended(self, row: RunRow) -> Run:
        return self._report(await self._build_ended(row), row.user, row.session)

    async def _build_ended(self, row: RunRow) -> Run:
        state = _state_from_row(row)
        state.steps = await _load_steps(self._store, row.run_id)
        status = cast(RunStatus, row.state)
        output = None if status == "failed" else self._agent.settings.output.parse_if_valid(state.last_text)
        scope = await self._open_scope(state)
        return await build_run(scope, state, status, reason=row.reason or "", output=output)


def _state_from_row(row: RunRow) -> RunState:
    spent = Spent.from_json(row.spent)
    origin = RunOrigin.from_row(row)
    return RunState(row.run_id, row.agent, row.user, row.session, row.prompt, spent=spent, origin=origin)


async def _load_steps(store: Store, run_id: str) -> list[Step]:
    rows = await store.steps.list(run_id)
    return [Step.from_json(row.step, row.answer, [(call.call_id, call.outcome) for call in row.calls]) for row in rows]
