"""Agent: a model with instructions, tools and limits, which can be run, streamed, resumed and steered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from surehand.agent.approver import build_approver
from surehand.agent.compaction import DEFAULT_CONTEXT_WINDOW, Compactor
from surehand.agent.conversation import Prompt
from surehand.agent.hooks import Hook, HookTable
from surehand.agent.limits import CostLimitCheck, Limits
from surehand.agent.loop import LoopSettings
from surehand.agent.model_argument import to_model
from surehand.agent.models.base import Model, find_max_tokens
from surehand.agent.output import OutputType
from surehand.agent.request_builder import RequestBuilder
from surehand.agent.run import Run
from surehand.agent.run_driver import AgentDefinition, RunDriver
from surehand.agent.run_family import RunFamily
from surehand.agent.run_storage import StoredRun
from surehand.agent.runtime import Runtime
from surehand.agent.stored_run_driver import StoredRunDriver
from surehand.agent.sub_agents import CallableAgent, build_agent_tool
from surehand.agent.tool_selection import ToolSelection
from surehand.agent.unstored_run_driver import UnstoredRunDriver, UnstoredRuns
from surehand.catalogue.catalogue import Catalogue
from surehand.core.define import LazyTool, ParametersLike
from surehand.core.errors import DefinitionError
from surehand.core.events import Event
from surehand.core.ids import new_id
from surehand.core.names import is_legal_name
from surehand.core.outcome import Pending
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.pending.pending_call import Approver
from surehand.runtime.scope import Scope
from surehand.runtime.sources import AgentSource

if TYPE_CHECKING:
    from surehand.store.store import Store


class Agent:
    """A model that is asked again and again, with the calls that it makes in between.

    Args:
        name: letters, digits, `_` and `-`.
        model: `"provider:name"`, or a model.
        tools: tools and providers of the agent's own; texts are names, globs or toolsets of the runtime. Left out: all
            tools of the runtime that models may see.
        agents: agents that it can call, each as the tool `agent__name`.
        parameters: what callers of `agent__name` give: a pydantic model, a dataclass, a TypedDict or a JSON Schema. The
            model reads them as JSON. Left out: `{prompt: string}`.
        description: what the models of other agents read about this one; its instructions are not shown to them.
        output: the type of the final answer, such as a pydantic model, or a JSON Schema; a plain text if left out.
        hooks: functions of `(data, ctx)` by the moment at which they are called.
        approver: asked about calls that need an approval, before a person is. A model can only approve, or leave it to
            the person; a function decides as the runtime's own approver does.
        context_window: tokens that the model can read; old parts of a longer conversation are shortened.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: str = "",
        tools: Sequence[Any] | None = None,
        agents: Sequence[Agent] = (),
        limits: Limits | None = None,
        output: Any = None,
        hooks: Mapping[str, Hook] | None = None,
        approver: str | Model | Approver | None = None,
        context_window: int = DEFAULT_CONTEXT_WINDOW,
        parameters: ParametersLike = None,
        description: str = "",
    ) -> None:
        if not is_legal_name(str(name)):
            raise DefinitionError(f"{name!r} cannot be the name of an agent.", fix="use letters, digits, `_` and `-`.")
        self.name = name
        self.model = to_model(model)
        self.limits = limits or Limits()
        self._hooks = HookTable(hooks)
        self._selection = ToolSelection(name, tools, build_approver(approver), _require_agents(agents))
        output_type = OutputType(output)
        compactor = Compactor(context_window, find_max_tokens(self.model))
        request_builder = RequestBuilder(instructions, output_type, compactor, self._selection.has_runtime_tools)
        cost_limit_check = CostLimitCheck(name, self.model.name, self.limits.cost)
        settings = LoopSettings(self.model, self.limits, output_type, request_builder, cost_limit_check)
        self._definition = AgentDefinition(name, settings, self._selection, self._hooks)
        self._driven_runs: dict[str, StoredRun] = {}
        """Runs in a store that this process drives now."""
        self._unstored_runs = UnstoredRuns()
        self._tool = build_agent_tool(
            CallableAgent(name, self.run, self._open_sub_run_driver),
            description or f"Give a task to the agent {name}, and get its report.",
            parameters,
        )

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.model.name!r})"

    @property
    def tool(self) -> Tool[..., Any]:
        """The tool `agent__name`, with which other agents and programs call this one."""
        return self._tool

    @property
    def agents(self) -> tuple[AgentSource, ...]:
        """The agents that this one can call."""
        return self._selection.agents

    @property
    def own_tools(self) -> tuple[Tool[..., Any], ...]:
        """The tools that are the agent's own."""
        return self._selection.own_tools

    @property
    def lazy_tools(self) -> tuple[LazyTool, ...]:
        """The agent's own tools whose factories a runtime calls when it starts the agent."""
        return self._selection.lazy_tools

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The providers that are the agent's own; a runtime that has the agent starts them."""
        return self._selection.providers

    def narrow(self, scope: Scope, own_catalogue: Catalogue) -> Scope:
        """A scope in which only the agent's tools can be called; runtimes use it."""
        return self._selection.narrow(scope, own_catalogue)

    async def run(
        self,
        prompt: Prompt,
        *,
        user: str | None = None,
        session: str | None = None,
        runtime: Scope | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Run the agent until it is done, stopped or failed, or waits.

        Args:
            prompt: a text, content blocks, or the messages of a conversation to continue.
            runtime: where its calls are made; without one, the agent opens a runtime of its own for its own tools.
            run_id: an id of the caller's: the same id again is the same run, which is resumed or returned.
        """
        async with self._open_driver(runtime) as driver:
            return await driver.start(prompt, user=user, session=session, run_id=run_id or new_id())

    async def stream(
        self,
        prompt: Prompt,
        *,
        user: str | None = None,
        session: str | None = None,
        runtime: Scope | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Run the agent and yield its events, from `RunStarted` to `RunEnded`. Leaving the loop cancels the run."""
        run_id = run_id or new_id()
        async with self._open_driver(runtime) as driver:
            run = driver.start(prompt, user=user, session=session, run_id=run_id)
            # Closed here, and not when it is collected: leaving the loop cancels the run before it goes on.
            async with aclosing(_stream_events(driver.runtime, run_id, run)) as events:
                async for event in events:
                    yield event

    async def resume(self, run_id: str, *, runtime: Scope | None = None) -> Run:
        """Go on with a run that waits or that lost its process; one that has ended is returned."""
        async with self._open_driver(runtime) as driver:
            return await driver.resume(run_id)

    async def resume_if_free(self, run_id: str, *, runtime: Scope) -> Run | None:
        """Go on with a run; None if another process drives it, or if it has ended. Workers use it."""
        async with self._open_driver(runtime) as driver:
            return await driver.resume_if_free(run_id)

    def hand_back(self, run_id: str) -> bool:
        """Leave a run to other processes after its step; False if it is not driven here. Workers use it."""
        record = self._driven_runs.get(run_id)
        if record is None:
            return False
        record.hand_back()
        return True

    async def give_up(self, run_id: str, *, reason: str, runtime: Scope) -> None:
        """End a run as failed, unless another process drives it, or it has ended. Workers use it."""
        async with self._open_driver(runtime) as driver:
            await driver.give_up(run_id, reason)

    async def cancel(self, run_id: str, *, reason: str = "Cancelled.", runtime: Scope | None = None) -> bool:
        """Stop a run for good, from any process, and cancel its calls; False if it has ended."""
        async with self._open_driver(runtime) as driver:
            return await driver.cancel(run_id, reason)

    async def steer(self, run_id: str, text: str, *, runtime: Scope | None = None) -> None:
        """Send a message to a run; the model reads it before its next answer."""
        async with self._open_driver(runtime) as driver:
            await driver.send(run_id, "steer", text)

    async def follow_up(self, run_id: str, text: str, *, runtime: Scope | None = None) -> None:
        """Send a message to a run; the model reads it when it has nothing else to do."""
        async with self._open_driver(runtime) as driver:
            await driver.send(run_id, "follow_up", text)

    def add_hook(self, name: str, hook: Hook) -> Callable[[], None]:
        """Add a hook, also while the agent runs; returns the function that removes it."""
        return self._hooks.add(name, hook)

    def _open_sub_run_driver(self, runtime: Scope, store: Store) -> RunDriver:
        """A driver on the store of a runtime, also if that is one in memory, because none was configured."""
        return StoredRunDriver(self._definition, self, runtime, store, self._driven_runs)

    def _driver_for(self, runtime: Scope) -> RunDriver:
        """A driver on the configured store; one in memory would not outlive this process either."""
        store = runtime.store if runtime.is_durable else None
        if store is None:
            return UnstoredRunDriver(self._definition, self, runtime, self._unstored_runs)
        return StoredRunDriver(self._definition, self, runtime, store, self._driven_runs)

    @asynccontextmanager
    async def _open_driver(self, runtime: Scope | None) -> AsyncIterator[RunDriver]:
        if runtime is not None:
            yield self._driver_for(runtime)
            return
        if self._selection.texts:
            names = ", ".join(map(repr, self._selection.texts))
            raise DefinitionError(
                f"The agent {self.name} uses tools of a runtime: {names}.",
                fix="pass the runtime: run(..., runtime=...).",
            )
        own_runtime = Runtime()
        own_runtime.refuse_waits(_refuse_wait)
        async with own_runtime:
            yield self._driver_for(own_runtime)


def _require_agents(agents: Any) -> tuple[Agent, ...]:
    if isinstance(agents, Agent):
        raise DefinitionError(f"agents={agents!r} is one agent.", fix="give a list: agents=[...].")
    for each in agents:
        if not isinstance(each, Agent):
            raise DefinitionError(f"{each!r} in `agents` is not an agent.", fix="give tools in `tools`.")
    return tuple(agents)


def _refuse_wait(pending: Pending) -> str:
    return (
        f"would have to wait for {pending.waiting_for}, and this agent runs without a runtime that remembers it. "
        "Pass one to run it: run(..., runtime=Runtime(..., store='app.db'))."
    )


async def _stream_events(runtime: Scope, run_id: str, run: Coroutine[Any, Any, Run]) -> AsyncGenerator[Event]:
    """Drive a run and yield its events and those of the runs below it, in order; leaving the loop cancels it."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    family = RunFamily(run_id)

    def listen(event: Event) -> None:
        if family.includes(event):
            events.put_nowait(event)

    unsubscribe = runtime.listen(listen)
    task = asyncio.create_task(run)
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        task.result()  # raises if the run could not be driven
    finally:
        unsubscribe()
        task.cancel()
        await asyncio.wait({task})
