"""Agent Framework: `FunctionTool.invoke`, which validates, logs, and turns the result into content.

It is the public way to call a tool, and what its chat clients call. They parse the JSON first, so the arguments are a
dict; reading the call and writing the result message, which they do around it, are left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_framework import tool

from bench.call_limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    tool_under_test = tool(add)

    async def call() -> list[str]:
        return [content.text for content in await tool_under_test.invoke(arguments={"a": 1, "b": 2}, tool_call_id="1")]

    yield call


if __name__ == "__main__":
    report("agent-framework-core", "FunctionTool.invoke", open_path)
