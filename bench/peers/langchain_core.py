"""LangChain: `StructuredTool.ainvoke` with a tool call, which validates, runs the callbacks and makes a `ToolMessage`.

The arguments are a dict already, because chat models parse the JSON before a tool sees it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langchain_core.messages import ToolCall
from langchain_core.tools import StructuredTool

from bench.call_limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    tool_under_test = StructuredTool.from_function(coroutine=add)
    call = ToolCall(name="add", args={"a": 1, "b": 2}, id="1", type="tool_call")
    yield lambda: tool_under_test.ainvoke(call)


if __name__ == "__main__":
    report("langchain-core", "StructuredTool.ainvoke of a tool call", open_path)
