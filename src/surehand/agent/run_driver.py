"""RunDriver: starts the runs of an agent and goes on with them, in the store or in this process alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from surehand.agent.conversation import Prompt, prompt_messages
from surehand.agent.hooks import HookTable, RunContext, RunHooks
from surehand.agent.limits import Spent
from surehand.agent.loop import LoopSettings, RunLoop
from surehand.agent.run import Run, RunStatus, build_run
from surehand.agent.run_origin import RunOrigin
from surehand.agent.run_state import RunState
from surehand.agent.run_storage import MessageKind, RunLost, RunRecord, SentMessage, StoredRun, UnstoredRun
from surehand.agent.steps import Step, has_ended
from surehand.agent.tool_selection import ToolSelection
from surehand.core.events import RunEnded, RunStarted
from surehand.core.ids import is_run_of_call
from surehand.store.tables.runs import RunClaim, RunRow

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.sources import AgentSource
    from surehand.store.store import Store

POLL_SECONDS = 0.25
"""How often a caller looks whether the process that drives its run has ended it."""
MAX_ENDED_RUNS = 1_000
"""How many runs that ended without a store an agent remembers."""


class UnknownRun(LookupError):
    """The agent has no run of this id."""


class RunHasEnded(ValueError):
    """The run takes no more messages."""


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """What an agent is made of."""

    name: str
    settings: LoopSettings
    selection: ToolSelection
    hooks: HookTable


@dataclass(slots=True)
class LocalRuns:
    """The runs of an agent in this process: stored ones while it drives them, and those that only it knows."""

    driven: dict[str, StoredRun] = field(default_factory=dict)
    """Runs in the store that this process drives now."""
    unstored: dict[str, UnstoredRun] = field(default_factory=dict)
    """Runs without a store that go on or wait."""
    ended: dict[str, tuple[RunState, Run]] = field(default_factory=dict)
    """The last runs without a store that have ended."""

    def find_state(self, run_id: str) -> RunState | None:
        """The state of a run that goes on, waits or has ended; None for an unknown one."""
        if run_id in self.unstored:
            return self.unstored[run_id].state
        return self.ended[run_id][0] if run_id in self.ended else None

    def end(self, state: RunState, run: Run) -> None:
        """Keep the result of a run in place of the run itself."""
        self.unstored.pop(run.id, None)
        self.ended[run.id] = replace(state, prompt=[], steps=[]), run
        while len(self.ended) > MAX_ENDED_RUNS:
            del self.ended[next(iter(self.ended))]


class RunDriver:
    """Drives the runs of an agent on one runtime."""

    def __init__(
        self,
        agent: AgentDefinition,
        source: AgentSource,
        runtime: Scope,
        local: LocalRuns,
        store: Store | None = None,
    ) -> None:
        """
        Args:
            store: where the runs are kept, also if no store was configured.
        """
        self._agent = agent
        self._source = source
        self.runtime = runtime
        self._local = local
        self._given_store = store

    @property
    def _store(self) -> Store | None:
        """The configured store: one in memory would not outlive this process either."""
        if self._given_store is not None:
            return self._given_store
        return self.runtime.store if self.runtime.is_durable else None

    async def start(
        self, prompt: Prompt, *, user: str | None, session: str | None, run_id: str, origin: RunOrigin | None = None
    ) -> Run:
        """Start a run, or go on with the one that has this id.

        Args:
            origin: the run whose call starts this one.
        """
        messages = prompt_messages(prompt)
        viewer = self.runtime.principal
        state = RunState(run_id, self._agent.name, user or viewer.user, session or viewer.session, messages)
        if origin is not None:
            state.origin = origin
        if (store := self._store) is not None:
            return await self._start_stored(store, state)
        known = self._local.find_state(run_id)
        if known is not None:
            self._require_same_owner(state, known)
        else:
            self._local.unstored[run_id] = UnstoredRun(state)
        return await self._resume_unstored(run_id)

    async def resume(self, run_id: str) -> Run:
        """Go on with a run, wait for the process that drives it, or return what it ended with."""
        if (store := self._store) is not None:
            return await self._resume_stored(store, run_id)
        return await self._resume_unstored(run_id)

    async def resume_if_free(self, run_id: str) -> Run | None:
        """Go on with a run; None if another process or task drives it, or if it has ended."""
        if (store := self._store) is None:
            record = self._local.unstored.get(run_id)
            return None if record is None or record.lock.locked() else await self._resume_unstored(run_id)
        await self._find_row(store, run_id)
        claim = await store.runs.claim(run_id, owner=self.runtime.runtime_id)
        try:
            return None if claim is None else await self._drive_reclaimed(store, claim)
        except RunLost:  # another process goes on with it, or it was cancelled
            return None

    async def give_up(self, run_id: str, reason: str) -> None:
        """End a run in the store as failed, unless another process drives it, or it has ended."""
        if (store := self._store) is None:
            return
        await self._find_row(store, run_id)
        claim = await store.runs.claim(run_id, owner=self.runtime.runtime_id)
        if claim is None:
            return
        state = _state_from_row(claim.run)
        state.steps = await _load_steps(store, run_id)
        report = {"text": state.last_text, "output": None}
        if await store.runs.save(claim, "failed", report=report, reason=reason):
            self._report(await build_run(self.runtime, state, "failed", reason=reason), state.user, state.session)
            await self.runtime.end_calls_that_follow_run(run_id)

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run, whoever drives it, and cancel its calls; False if it has ended."""
        if (store := self._store) is None:
            return await self._cancel_unstored(run_id, reason)
        row = await self._find_row(store, run_id)
        record = self._local.driven.get(run_id)
        if not await self.runtime.cancel_run(run_id, reason):
            return False
        if record is not None:
            record.abandon()  # another process notices within a second
        if row.owner is None:  # nothing drives it that could tell
            await self._report_ended(store, await self._find_row(store, run_id))
        await self.runtime.end_calls_that_follow_run(run_id)
        return True

    async def send(self, run_id: str, kind: MessageKind, text: Any) -> None:
        """Send a message to a run."""
        if (store := self._store) is not None:
            await self._find_row(store, run_id)
            is_sent = await store.runs.send(run_id, kind, text)
        else:
            self._find_unstored(run_id)
            is_sent = run_id not in self._local.ended
            if is_sent:
                self._local.unstored[run_id].messages.append(SentMessage(kind, text))
        if not is_sent:
            raise RunHasEnded(f"Run {run_id} has ended. Start another one with Agent.run().")

    # Without a store

    def _find_unstored(self, run_id: str) -> RunState:
        state = self._local.find_state(run_id)
        if state is None or not self._may_see(state.user, state.session):
            raise UnknownRun(f"The agent {self._agent.name} has no run {run_id!r} here.")
        return state

    async def _resume_unstored(self, run_id: str) -> Run:
        state = self._find_unstored(run_id)
        record = self._local.unstored.get(run_id)
        if record is not None:
            async with record.lock:  # another task of this program may drive it
                if run_id in self._local.unstored:
                    try:
                        with record.stop_on_cancel():
                            run = await self._drive(record.state, record)
                    except RunLost:  # it was cancelled
                        return self._report_unstored(run_id)
                    if run.status != "waiting":
                        self._local.end(state, run)
                    return run
        return self._report_unstored(run_id)

    def _report_unstored(self, run_id: str) -> Run:
        state, run = self._local.ended[run_id]
        return self._report(run, state.user, state.session)

    async def _cancel_unstored(self, run_id: str, reason: str) -> bool:
        state = self._find_unstored(run_id)
        record = self._local.unstored.get(run_id)
        if record is None:
            return False
        run = await build_run(await self._open_scope(state), state, "stopped", reason=reason)
        self._local.end(state, run)
        if not record.cancel():
            self._report(run, state.user, state.session)
        await self._cancel_unstored_calls(record.state)
        return True

    async def _cancel_unstored_calls(self, state: RunState) -> None:
        running = [each.assigned_id for each in self.runtime.running_calls() if each.principal.turn == state.run_id]
        waiting = [call.call_id for step in state.steps for call in step.calls if not has_ended(call)]
        for call_id in dict.fromkeys([*running, *waiting]):
            if call_id is not None:
                await self.runtime.cancel(call_id)

    # With a store

    async def _start_stored(self, store: Store, state: RunState) -> Run:
        begun = await store.runs.begin(
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
                return await self._drive_claimed(store, begun, state)
            except RunLost:  # it was too slow to renew its claim, and another process goes on
                return await self._resume_stored(store, state.run_id)
        self._require_same_owner(state, _state_from_row(begun))
        return await self._resume_stored(store, state.run_id)

    async def _resume_stored(self, store: Store, run_id: str) -> Run:
        while True:
            row = await self._find_row(store, run_id)
            if row.has_ended:
                return await self._report_ended(store, row)
            claim = await store.runs.claim(run_id, owner=self.runtime.runtime_id)
            if claim is not None:
                try:
                    return await self._drive_reclaimed(store, claim)
                except RunLost:  # it was too slow to renew its claim, and another process goes on
                    continue
            await self.runtime.clock.sleep(POLL_SECONDS)

    async def _drive_reclaimed(self, store: Store, claim: RunClaim) -> Run:
        state = _state_from_row(claim.run)
        if await self._lost_its_caller(store, state):
            await self.runtime.cancel_run(claim.run_id, "The run that started this one was cancelled.")
            raise RunLost
        state.steps = await _load_steps(store, claim.run_id)
        return await self._drive_claimed(store, claim, state)

    async def _drive_claimed(self, store: Store, claim: RunClaim, state: RunState) -> Run:
        record = StoredRun(store, claim)
        self._local.driven[claim.run_id] = record
        try:
            async with record.keep_claimed():
                run = await self._drive(state, record)
        except RunLost:
            row = await store.runs.find(claim.run_id)
            if row is not None and row.is_cancelled:  # with the calls that this process has made meanwhile
                await self.runtime.cancel_run(row.run_id, row.reason or "")
            raise
        finally:
            if self._local.driven.get(claim.run_id) is record:
                del self._local.driven[claim.run_id]
        if run.status != "waiting" and is_run_of_call(run.id):
            await self.runtime.end_calls_that_follow_run(run.id)
        return run

    async def _lost_its_caller(self, store: Store, state: RunState) -> bool:
        """Whether the run was started by a call of a run that was cancelled."""
        parent = None if state.origin.parent_run is None else await store.runs.find(state.origin.parent_run)
        return parent is not None and parent.is_cancelled

    async def _find_row(self, store: Store, run_id: str) -> RunRow:
        row = await store.runs.find(run_id)
        if row is None or row.agent != self._agent.name or not self._may_see(row.user, row.session):
            raise UnknownRun(f"The agent {self._agent.name} has no run {run_id!r}.")
        return row

    async def _report_ended(self, store: Store, row: RunRow) -> Run:
        state = _state_from_row(row)
        state.steps = await _load_steps(store, row.run_id)
        status = cast(RunStatus, row.state)
        output = None if status == "failed" else self._agent.settings.output.parse_if_valid(state.last_text)
        scope = await self._open_scope(state)
        run = await build_run(scope, state, status, reason=row.reason or "", output=output)
        return self._report(run, row.user, row.session)

    def _require_same_owner(self, new: RunState, known: RunState) -> None:
        if (new.agent, new.user, new.session) != (known.agent, known.user, known.session):
            raise ValueError(f"The run id {new.run_id!r} belongs to another run. Use an id of your own for each run.")

    # Both

    def _may_see(self, user: str | None, session: str | None) -> bool:
        """Whether a run of a user and session may be seen from the scope that this driver has."""
        viewer = self.runtime.principal
        return viewer.user in (None, user) and viewer.session in (None, session)

    async def _open_scope(self, state: RunState) -> Scope:
        return await self.runtime.enter_agent(self._source, user=state.user, session=state.session, turn=state.run_id)

    async def _drive(self, state: RunState, record: RunRecord) -> Run:
        scope = await self._open_scope(state)
        if scope.has_listeners:
            at = scope.clock.time()
            scope.emit(RunStarted(state.run_id, state.agent, state.user, state.session, at, state.origin.parent_run))
        context = RunContext(state.run_id, state.agent, state.user, state.session)
        hooks = RunHooks(context, self._agent.hooks, lambda: self._agent.selection.hooks(scope))
        run = await RunLoop(self._agent.settings, scope, state, record, hooks).drive()
        return self._report(run, state.user, state.session)

    def _report(self, run: Run, user: str | None, session: str | None) -> Run:
        """Tell listeners that a run has ended or waits."""
        if self.runtime.has_listeners:
            self.runtime.emit(RunEnded(run, user, session, self.runtime.clock.time()))
        return run


def _state_from_row(row: RunRow) -> RunState:
    spent = Spent.from_json(row.spent)
    origin = RunOrigin.from_row(row)
    return RunState(row.run_id, row.agent, row.user, row.session, row.prompt, spent=spent, origin=origin)


async def _load_steps(store: Store, run_id: str) -> list[Step]:
    rows = await store.steps.list(run_id)
    return [Step.from_json(row.step, row.answer, [(call.call_id, call.outcome) for call in row.calls]) for row in rows]
