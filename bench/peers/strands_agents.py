"""Strands: the `SequentialToolExecutor` of an agent, which finds the tool, runs hooks and middleware, validates, and
records a trace and metrics.

It is what the event loop calls with the tool uses of a model's message. There is no shorter managed path: a direct call
(`agent.tool.add()`) starts a thread and a loop on top of it. The model is never called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.trace import INVALID_SPAN
from strands import Agent, tool
from strands.models import Model
from strands.telemetry.metrics import Trace
from strands.tools.executors import SequentialToolExecutor
from strands.types.tools import ToolResult, ToolUse

from bench.call_limit import add
from bench.peers.report import Add, report


class UnusedModel(Model):
    """A model that the agent requires and never calls."""

    def update_config(self, **model_config: Any) -> None: ...
    def get_config(self) -> Any:
        return {}

    def structured_output(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def stream(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    agent, executor = Agent(model=UnusedModel(), tools=[tool(add)]), SequentialToolExecutor()

    async def call() -> list[ToolResult]:
        use: ToolUse = {"toolUseId": "1", "name": "add", "input": {"a": 1, "b": 2}}
        results: list[ToolResult] = []
        async for _ in executor._execute(agent, [use], results, Trace("cycle"), INVALID_SPAN, {}):
            pass
        return results

    yield call


if __name__ == "__main__":
    report("strands-agents", "SequentialToolExecutor, one tool use", open_path)
