"""ADK: `FunctionTool.run_async` with a `ToolContext`, which converts and checks the arguments and asks for
confirmation where that is required.

It is what its flows call for every function call of a model. The plugins, callbacks, trace span and event that a flow
adds are left out; the arguments are a dict, as Gemini's API sends them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext

from bench.call_limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    tool_under_test, sessions = FunctionTool(add), InMemorySessionService()
    session = await sessions.create_session(app_name="bench", user_id="1")
    agent = LlmAgent(name="bench", tools=[tool_under_test])
    run = InvocationContext(session_service=sessions, invocation_id="1", agent=agent, session=session)

    async def call() -> Any:
        return await tool_under_test.run_async(
            args={"a": 1, "b": 2}, tool_context=ToolContext(invocation_context=run, function_call_id="1")
        )

    yield call


if __name__ == "__main__":
    report("google-adk", "FunctionTool.run_async with a ToolContext", open_path)
