"""A client that is a Pydantic AI agent with a scripted model."""

import json
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from observations import Observations, Target, answer, print_observations
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import AgentInfo, FunctionModel

CALLS = {
    "added": ("add", {"a": 1, "b": 2}),
    "counted": ("count", {"to": 2}),
    "failed": ("look_up", {"word": "xyzzy"}),
    "accepted": ("delete", {"file": "old.txt"}),
    "declined": ("delete", {"file": "new.txt"}),
}


async def client(target: Target, protocol: str) -> Observations:
    reports: list[list[Any]] = []
    tools: dict[str, str | None] = {}

    async def answer_elicitation(message: str, *_: object) -> ElicitResult[dict[str, Any]]:
        action = answer(message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools.update({each.name: each.description for each in info.function_tools})
        if len(messages) > 1:
            return ModelResponse([TextPart(json.dumps(answers(messages)))])
        return ModelResponse(
            [ToolCallPart(name, arguments, tool_call_id=key) for key, (name, arguments) in CALLS.items()]
        )

    transport = StdioTransport(target[0], target[1:]) if isinstance(target, list) else target
    server = Client(transport, mode=protocol, elicitation_handler=answer_elicitation, progress_handler=report)
    async with Agent(FunctionModel(model), toolsets=[MCPToolset(server)]) as agent:
        results = json.loads((await agent.run("Do what you have to.")).output)
    return {"tools": tools, "reports": reports, **results}


def answers(messages: list[ModelMessage]) -> dict[str, Any]:
    """The results that the model gets: a value, or the outcome and message of a failed call."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return {
        part.tool_call_id: part.content if part.outcome == "success" else [part.outcome, part.content]
        for part in returned
    }


if __name__ == "__main__":
    print_observations(client)
