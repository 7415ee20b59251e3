"""RunDriver: drives the runs of an agent on one runtime, wherever they are remembered.

`stored_run_driver.py` drives runs in a store, which any process may go on with; `unstored_run_driver.py`
drives those that only this process knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.agent.conversation import Prompt, prompt_messages
from surehand.agent.hooks import HookTable, RunContext, RunHooks
from surehand.agent.loop import LoopSettings, RunLoop
from surehand.agent.run import Run
from surehand.agent.run_origin import RunOrigin
from surehand.agent.run_state import RunState
from surehand.agent.run_storage import MessageKind, RunRecord
from surehand.agent.tool_selection import ToolSelection
from surehand.core.events import RunEnded, RunStarted

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.sources import AgentSource


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


class RunDriver(ABC):
    """Starts runs of an agent, goes on with them and ends them."""

    def __init__(self, agent: AgentDefinition, source: AgentSource, runtime: Scope) -> None:
        self._agent = agent
        self._source = source
        self.runtime = runtime

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
        return await self._start(state)

    @abstractmethod
    async def _start(self, state: RunState) -> Run:
        """Start a run in this state, or go on with the one that has its id."""

    @abstractmethod
    async def resume(self, run_id: str) -> Run:
        """Go on with a run, wait for the process or task that drives it, or return what it ended with."""

    @abstractmethod
    async def resume_if_free(self, run_id: str) -> Run | None:
        """Go on with a run; None if another process or task drives it, or if it has ended."""

    @abstractmethod
    async def give_up(self, run_id: str, reason: str) -> None:
        """End a run in the store as failed, unless another process drives it, or it has ended."""

    @abstractmethod
    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run, whoever drives it, and cancel its calls; False if it has ended."""

    async def send(self, run_id: str, kind: MessageKind, text: Any) -> None:
        """Send a message to a run."""
        if not await self._send_if_open(run_id, kind, text):
            raise RunHasEnded(f"Run {run_id} has ended. Start another one with Agent.run().")

    @abstractmethod
    async def _send_if_open(self, run_id: str, kind: MessageKind, text: Any) -> bool:
        """Send a message to a run; False if it has ended."""

    def _require_same_owner(self, new: RunState, known: RunState) -> None:
        if (new.agent, new.user, new.session) != (known.agent, known.user, known.session):
            raise ValueError(f"The run id {new.run_id!r} belongs to another run. Use an id of your own for each run.")

    def _may_see(self, user: str | None, session: str | None) -> bool:
        """Whether a run of a user and session may be seen from the scope that this driver has."""
        viewer = self.runtime.principal
        return viewer.user in (None, user) and viewer.session in (None, session)

    async def _open_scope(self, state: RunState) -> Scope:
        return await self.runtime.enter_agent(self._source, user=state.user, session=state.session, turn=state.run_id)

    def _build_hooks(self, state: RunState) -> RunHooks:
        context = RunContext(state.run_id, state.agent, state.user, state.session)
        return RunHooks(context, self._agent.hooks)

    async def _complete(self, state: RunState, run: Run) -> None:
        """Tell the hooks that a run has ended which no loop drives."""
        scope = await self._open_scope(state)
        hooks = self._build_hooks(state)
        hooks.find_tool_hooks = lambda: self._agent.selection.hooks(scope)
        await hooks.call("on_complete", run)

    async def _drive(self, state: RunState, record: RunRecord, hooks: RunHooks) -> Run:
        scope = await self._open_scope(state)
        hooks.find_tool_hooks = lambda: self._agent.selection.hooks(scope)
        if scope.has_listeners:
            at = scope.clock.time()
            scope.emit(RunStarted(state.run_id, state.agent, state.user, state.session, at, state.origin.parent_run))
        run = await RunLoop(self._agent.settings, scope, state, record, hooks).drive()
        return self._report(run, state.user, state.session)

    def _report(self, run: Run, user: str | None, session: str | None) -> Run:
        """Tell listeners that a run has ended or waits."""
        if self.runtime.has_listeners:
            self.runtime.emit(RunEnded(run, user, session, self.runtime.clock.time()))
        return run
