"""An agent whose model lives in another process, and the runs that the processes of the harness start and resume."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from surehand import Runtime
from surehand.agent.agent import Agent
from surehand.agent.hooks import RunContext
from surehand.agent.models.base import ModelAnswer, ModelCall, ModelChunk, ModelError, ModelRequest
from surehand.agent.run_driver import RunHasEnded
from tests.crash.run_driver import find_free_runs
from tests.crash.run_log import RunLog
from tests.crash.scenarios import Scenario
from tests.crash.tools import OwnTools

AGENT, SCOUT = "agnes", "scout"
PORT_VARIABLE = "SUREHAND_CRASH_MODEL_PORT"
"""The environment variable with the port of the model server."""
STEERING = "Hurry."
"""The message that is sent to each run."""
TOOLS = ("pay", "wire", "look_up", "post")
CURRENT_RUN: ContextVar[str] = ContextVar("CURRENT_RUN")
"""The run that asks the model: the model of an agent is not told."""


class RemoteModel:
    """Asks the model server; each request and each answer is a kill point."""

    name = "remote"

    def __init__(self, run_log: RunLog) -> None:
        self._run_log = run_log

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """One request, and one answer without chunks."""
        self._run_log.points.reach("before the request")
        asked = {"folder": str(self._run_log.folder), "run_id": CURRENT_RUN.get(), "messages": request.messages}
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PORT_VARIABLE]))
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            line = await reader.readline()
        finally:
            writer.close()
        if not line:
            raise ModelError("The model server gave no answer.")
        self._run_log.points.reach("after the request")
        given = json.loads(line)
        calls = tuple(
            ModelCall(name, json.dumps(arguments), f"call_{number}")
            for number, (name, arguments) in enumerate(given["calls"], start=1)
        )
        yield ModelAnswer(given["text"], calls, stop_reason="tool_calls" if calls else "stop")


def set_current_run(_: Any, context: RunContext) -> None:
    """The hook that runs before each request, in the task that makes it."""
    CURRENT_RUN.set(context.run_id)


class AgentDriver:
    """Starts the runs of a scenario, or goes on with them, as far as they come without an answer of a person."""

    def __init__(self, runtime: Runtime, run_log: RunLog, own_tools: OwnTools, scenario: Scenario) -> None:
        self._runtime = runtime
        self._run_log = run_log
        self._scenario = scenario
        model, hooks = RemoteModel(run_log), {"on_tick_start": set_current_run}
        self._scout = Agent(SCOUT, model=model, hooks=hooks, tools=[*TOOLS, *own_tools[SCOUT]])
        own = own_tools[AGENT]
        self._agent = Agent(AGENT, model=model, hooks=hooks, tools=[*TOOLS, *own], agents=[self._scout])

    async def drive_all(self) -> int:
        """Go on with all runs; returns how many have not ended."""
        return sum(await asyncio.gather(*map(self._drive, self._scenario.runs)))

    async def drive_free(self) -> None:
        """Go on with runs that were answered or interrupted, unless another process drives them."""
        agents = {AGENT: self._agent, SCOUT: self._scout}
        for run in await find_free_runs(self._runtime, *agents):
            await agents[run.agent].resume_if_free(run.run_id, runtime=self._runtime)

    async def _drive(self, run_id: str) -> bool:
        run = await self._agent.run(self._scenario.task, run_id=run_id, runtime=self._runtime)
        self._run_log.note("runs", {"run_id": run_id, "status": run.status, "text": run.text, "reason": run.reason})
        if run.status == "waiting" and run_id not in self._run_log.lines("steered"):
            await self._steer(run_id)
        return run.status == "waiting"

    async def _steer(self, run_id: str) -> None:
        """Send one message to a run, or two if the process dies in between."""
        self._run_log.points.reach("before the message")
        with suppress(RunHasEnded):  # another process has driven it to its end
            await self._agent.steer(run_id, STEERING, runtime=self._runtime)
        self._run_log.note("steered", run_id)
