"""The agents that a gateway serves, and their runs: starting one, going on with it, and finding it.

The gateway knows agents by the small protocols here; `surehand.Agent` fulfils them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from surehand.gateway.problems import Problem
from surehand.runtime.worker import ResumableAgent

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope


class FinishedRun(Protocol):
    """A run as an agent returns it: its end, or what it waits for."""

    id: str
    agent: str
    status: str
    text: str
    output: Any
    waiting: Sequence[PendingCall]
    usage: Any
    messages: list[Any]
    reason: str


class ServedAgent(ResumableAgent, Protocol):
    """An agent that clients may run."""

    model: Any

    async def run(
        self, prompt: Any, *, user: str | None, session: str | None, runtime: Scope, run_id: str | None
    ) -> Any: ...

    async def resume(self, run_id: str, *, runtime: Scope) -> Any: ...

    async def steer(self, run_id: str, text: str, *, runtime: Scope) -> None: ...

    async def follow_up(self, run_id: str, text: str, *, runtime: Scope) -> None: ...

    async def cancel(self, run_id: str, *, reason: str, runtime: Scope) -> bool: ...


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to start, or to go on with if its id is known."""

    run_id: str
    messages: list[Any]
    """The prompt, as messages."""
    user: str | None = None
    session: str | None = None


class AgentRuns:
    """Runs the agents of a gateway in tasks of the gateway, so that a run goes on when its client disconnects."""

    def __init__(
        self,
        runtime: Runtime,
        agents: Iterable[ServedAgent],
        spawn: Callable[[Coroutine[Any, Any, FinishedRun]], asyncio.Task[FinishedRun]],
    ) -> None:
        self._runtime = runtime
        self._spawn = spawn
        self.agents: Mapping[str, ServedAgent] = {agent.name: agent for agent in agents}
        self._driven: dict[asyncio.Task[FinishedRun], tuple[ServedAgent, str]] = {}

    async def attach(self) -> None:
        """Add the agents to the runtime, so that answers to calls of their own tools find these."""
        for agent in self.agents.values():
            await self._runtime.enter_agent(agent)

    def start(self, agent: ServedAgent, request: RunRequest) -> asyncio.Task[FinishedRun]:
        """Start a run, or go on with the one that has its id. The task raises `ValueError` for an id of another run."""
        run = agent.run(
            request.messages,
            user=request.user,
            session=request.session,
            runtime=self._runtime,
            run_id=request.run_id,
        )
        return self._drive(agent, request.run_id, run)

    def resume(self, agent: ServedAgent, run_id: str) -> asyncio.Task[FinishedRun]:
        """Go on with a run that waits or that lost its process."""
        return self._drive(agent, run_id, agent.resume(run_id, runtime=self._runtime))

    def _drive(
        self, agent: ServedAgent, run_id: str, run: Coroutine[Any, Any, FinishedRun]
    ) -> asyncio.Task[FinishedRun]:
        task = self._spawn(run)
        self._driven[task] = (agent, run_id)
        task.add_done_callback(self._driven.pop)
        return task

    def hand_back(self) -> None:
        """Leave the runs to other processes: their tasks are cancelled because the gateway stops."""
        for agent, run_id in self._driven.values():
            agent.hand_back(run_id)

    async def send(self, agent: ServedAgent, run_id: str, text: str, *, when_idle: bool) -> None:
        """Send a message to a run; raises `Problem` if the run has ended."""
        send = agent.follow_up if when_idle else agent.steer
        try:
            await send(run_id, text, runtime=self._runtime)
        except ValueError:
            raise _ended_run_problem(run_id) from None

    async def cancel(self, agent: ServedAgent, run_id: str, reason: str) -> None:
        """Stop a run and its calls; raises `Problem` if it has ended."""
        if not await agent.cancel(run_id, reason=reason, runtime=self._runtime):
            raise _ended_run_problem(run_id)


def _ended_run_problem(run_id: str) -> Problem:
    return Problem("conflict", f"Run {run_id[:80]} has ended.", run_id=run_id)
