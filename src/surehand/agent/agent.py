"""Agent: a model with instructions, tools and limits, which can be run, streamed, resumed and steered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from surehand.agent.compaction import DEFAULT_CONTEXT_WINDOW, Compactor
from surehand.agent.conversation import Prompt
from surehand.agent.driving import AgentDefinition, RunDriver, UnstoredRuns
from surehand.agent.hooks import Hook, HookTable
from surehand.agent.limits import Limits
from surehand.agent.loop import LoopSettings
from surehand.agent.models.base import Model
from surehand.agent.output import OutputType
from surehand.agent.prompt import PromptBuilder
from surehand.agent.run import Run
from surehand.agent.tool_selection import ToolSelection
from surehand.core.errors import DefinitionError
from surehand.core.events import CatalogueChanged, Event, Missed
from surehand.core.ids import new_id
from surehand.core.names import is_legal_name
from surehand.core.outcome import Pending
from surehand.runtime.runtime import Runtime
from surehand.runtime.scope import Scope


class Agent:
    """A model that is asked again and again, with the calls that it makes in between.

    Args:
        name: letters, digits, `_` and `-`.
        model: `"provider:name"`, or a model.
        tools: tools and providers of the agent's own; texts are names, globs or toolsets of the runtime. Left out: all
            tools of the runtime that models may see.
        output: the type of the final answer, such as a pydantic model; a plain text if left out.
        hooks: functions of `(data, ctx)` by the moment at which they are called.
        context_window: tokens that the model can read; old parts of a longer conversation are shortened.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: str = "",
        tools: Sequence[Any] | None = None,
        limits: Limits | None = None,
        output: Any = None,
        hooks: Mapping[str, Hook] | None = None,
        context_window: int = DEFAULT_CONTEXT_WINDOW,
    ) -> None:
        if not is_legal_name(str(name)):
            raise DefinitionError(f"{name!r} cannot be the name of an agent.", fix="use letters, digits, `_` and `-`.")
        self.name = name
        self.model = _choose_model(model)
        self.limits = limits or Limits()
        self._hooks = HookTable(hooks)
        self._selection = ToolSelection(name, tools)
        output_type = OutputType(output)
        prompt_builder = PromptBuilder(
            instructions, output_type, Compactor(context_window), self._selection.has_runtime_tools
        )
        settings = LoopSettings(self.model, self.limits, output_type, prompt_builder)
        self._definition = AgentDefinition(name, settings, self._selection, self._hooks)
        self._unstored_runs = UnstoredRuns()

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.model.name!r})"

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
            async with aclosing(_stream_events(driver.scope_of(user, session), run_id, run)) as events:
                async for event in events:
                    yield event

    async def resume(self, run_id: str, *, runtime: Scope | None = None) -> Run:
        """Go on with a run that waits or that lost its process; one that has ended is returned."""
        async with self._open_driver(runtime) as driver:
            return await driver.resume(run_id)

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

    @asynccontextmanager
    async def _open_driver(self, runtime: Scope | None) -> AsyncIterator[RunDriver]:
        if runtime is not None:
            yield RunDriver(self._definition, runtime, self._unstored_runs, owns_runtime=False)
            return
        selection = self._selection
        if selection.texts:
            names = ", ".join(map(repr, selection.texts))
            raise DefinitionError(
                f"The agent {self.name} uses tools of a runtime: {names}.",
                fix="pass the runtime: run(..., runtime=...).",
            )
        own_runtime = Runtime(*selection.own_tools, *selection.providers)
        own_runtime.refuse_waits(_refuse_wait)
        async with own_runtime:
            yield RunDriver(self._definition, own_runtime, self._unstored_runs, owns_runtime=True)


def _refuse_wait(pending: Pending) -> str:
    return (
        f"would have to wait for {pending.waiting_for}, and this agent runs without a runtime that remembers it. "
        "Pass one to run it: run(..., runtime=Runtime(..., store='app.db'))."
    )


def _choose_model(model: Any) -> Model:
    if isinstance(model, str):
        from surehand.agent.models.choose import choose_model  # loads the models of the official SDKs

        return choose_model(model)
    if not isinstance(model, Model):
        raise DefinitionError(
            f"model={model!r} is not a model.", fix='give "provider:name", or an object with `stream`.'
        )
    return model


async def _stream_events(runtime: Scope, run_id: str, run: Coroutine[Any, Any, Run]) -> AsyncGenerator[Event]:
    """Drive a run and yield its events in order; leaving the loop cancels it."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def listen(event: Event) -> None:
        if not isinstance(event, (CatalogueChanged, Missed)) and event.run_id == run_id:
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
