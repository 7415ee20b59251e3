"""OpenAI Agents: `Runner.run` with one tool call, on a model whose replies are prepared; tracing is switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.agent_limit import FINAL_TEXT, PROMPT
from bench.call_limit import ADD_ARGUMENTS, add
from bench.peers.report import Run, report_agent


class ScriptedModel(Model):
    """A call first, and then the text."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        is_first = isinstance(input, str) or len(input) == 1
        return ModelResponse([call_item() if is_first else text_item()], Usage(), None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the benchmark does not stream")


def call_item() -> ResponseFunctionToolCall:
    """The item of a tool call."""
    return ResponseFunctionToolCall(arguments=ADD_ARGUMENTS, call_id="call_1", name="add", type="function_call")


def text_item() -> ResponseOutputMessage:
    """The item of the final text."""
    text = ResponseOutputText(annotations=[], text=FINAL_TEXT, type="output_text")
    return ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")


@asynccontextmanager
async def open_path() -> AsyncIterator[Run]:
    agent = Agent("adder", tools=[function_tool(add)], model=ScriptedModel())
    config = RunConfig(tracing_disabled=True)

    async def run() -> Any:
        return (await Runner.run(agent, PROMPT, run_config=config)).final_output

    yield run


if __name__ == "__main__":
    report_agent("openai-agents", "Runner.run with one call", open_path)
