"""pydantic-ai: `ToolManager.handle_call`, which looks the tool up, validates, executes, and counts retries.

It is what an agent run calls for every tool call of a model's response; the run around it is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from bench.call_limit import ADD_ARGUMENTS, add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    toolset = FunctionToolset[None](tools=[add])
    context = RunContext[None](deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    manager = await ToolManager[None](toolset).for_run_step(context)
    yield lambda: manager.handle_call(ToolCallPart("add", ADD_ARGUMENTS, "1"))


if __name__ == "__main__":
    report("pydantic-ai-slim", "ToolManager.handle_call", open_path)
