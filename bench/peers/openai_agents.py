"""OpenAI Agents: `invoke_function_tool` with a `ToolContext`, which parses, validates, applies the tool's time limit
and turns errors into text.

It is what the runner calls for every tool call. Guardrails, hooks and the trace span that the runner puts around it
are left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import function_tool
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext

from bench.call_limit import ADD_ARGUMENTS, add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    tool_under_test = function_tool(add)

    async def call() -> Any:
        context = ToolContext(context=None, tool_name="add", tool_call_id="1", tool_arguments=ADD_ARGUMENTS)
        return await invoke_function_tool(function_tool=tool_under_test, context=context, arguments=ADD_ARGUMENTS)

    yield call


if __name__ == "__main__":
    report("openai-agents", "invoke_function_tool with a ToolContext", open_path)
