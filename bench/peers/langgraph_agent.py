"""LangGraph: a compiled graph of a model node and a `ToolNode`, with one tool call and prepared replies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench.agent_limit import FINAL_TEXT, PROMPT
from bench.call_limit import add
from bench.peers.report import Run, report_agent


async def reply(state: MessagesState) -> dict[str, Any]:
    """A call first, and then the text."""
    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1", "type": "tool_call"}
    is_first = len(state["messages"]) == 1
    return {"messages": [AIMessage("", tool_calls=[call]) if is_first else AIMessage(FINAL_TEXT)]}


@asynccontextmanager
async def open_path() -> AsyncIterator[Run]:
    graph = StateGraph(MessagesState)
    graph.add_node("model", reply)
    graph.add_node("tools", ToolNode([StructuredTool.from_function(coroutine=add)]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    compiled = graph.compile()

    async def run() -> Any:
        return (await compiled.ainvoke({"messages": [("user", PROMPT)]}))["messages"][-1].content

    yield run


if __name__ == "__main__":
    report_agent("langgraph", "a graph of a model and a ToolNode with one call", open_path)
