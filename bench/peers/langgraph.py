"""LangGraph: `ToolNode.ainvoke` with a list of one tool call, which finds the tool, handles its errors and makes a
`ToolMessage`.

It is the node that its agents call tools with. A graph around it would come on top, and is left out; what the graph
would hand to the node is handed to it here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from bench.call_limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    node = ToolNode([StructuredTool.from_function(coroutine=add)])
    call: dict[str, Any] = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1", "type": "tool_call"}
    config: RunnableConfig = {"configurable": {"__pregel_runtime": Runtime()}}
    yield lambda: node.ainvoke([call], config)


if __name__ == "__main__":
    report("langgraph", "ToolNode.ainvoke of one tool call", open_path)
