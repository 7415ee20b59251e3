"""pydantic-ai: `Agent.run` with one tool call, on a `FunctionModel` whose replies are prepared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.agent_limit import FINAL_TEXT, PROMPT
from bench.call_limit import ADD_ARGUMENTS, add
from bench.peers.report import Run, report_agent


def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A call first, and then the text."""
    is_first = len(messages) == 1
    return ModelResponse(parts=[ToolCallPart("add", ADD_ARGUMENTS, "call_1") if is_first else TextPart(FINAL_TEXT)])


@asynccontextmanager
async def open_path() -> AsyncIterator[Run]:
    agent = Agent(FunctionModel(reply), tools=[add])

    async def run() -> Any:
        return (await agent.run(PROMPT)).output

    yield run


if __name__ == "__main__":
    report_agent("pydantic-ai-slim", "Agent.run with one call", open_path)
