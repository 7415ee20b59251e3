"""An agent whose model lives in another process, and the runs that the processes of the harness start and resume."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from surehand import Runtime
from surehand.agent.agent import Agent
from surehand.agent.models.base import ModelAnswer, ModelCall, ModelChunk, ModelError, ModelRequest
from tests.crash.run_log import RunLog

AGENT = "agnes"
PORT_VARIABLE = "SUREHAND_CRASH_MODEL_PORT"
"""The environment variable with the port of the model server."""
TOOLS = ("pay", "wire", "look_up", "post")


class RemoteModel:
    """Asks the model server; each request and each answer is a kill point."""

    name = "remote"

    def __init__(self, run_log: RunLog, run_id: str) -> None:
        self._run_log = run_log
        self._run_id = run_id

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """One request, and one answer without chunks."""
        self._run_log.points.reach("before the request")
        asked = {"folder": str(self._run_log.folder), "run_id": self._run_id, "messages": request.messages}
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


class AgentDriver:
    """Starts the runs of a scenario, or goes on with them, as far as they come without an answer of a person."""

    def __init__(self, runtime: Runtime, run_log: RunLog, own_tools: list[Any], run_ids: tuple[str, ...]) -> None:
        self._runtime = runtime
        self._run_log = run_log
        self._agents = {
            run_id: Agent(AGENT, model=RemoteModel(run_log, run_id), tools=[*TOOLS, *own_tools]) for run_id in run_ids
        }

    async def drive_all(self) -> int:
        """Go on with all runs; returns how many have not ended."""
        return sum(await asyncio.gather(*map(self._drive, self._agents)))

    async def _drive(self, run_id: str) -> bool:
        run = await self._agents[run_id].run("Do it all.", run_id=run_id, runtime=self._runtime)
        self._run_log.note("runs", {"run_id": run_id, "status": run.status, "text": run.text, "reason": run.reason})
        return run.status == "waiting"
