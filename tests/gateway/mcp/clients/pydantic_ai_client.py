"""An agent of Pydantic AI with the server's tools; its model is scripted."""

import json
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import AgentInfo, FunctionModel
from ways import Seen, Target, answer, tell

CALLS = {
    "added": ("add", {"a": 1, "b": 2}),
    "counted": ("count", {"to": 2}),
    "failed": ("look_up", {"word": "xyzzy"}),
    "accepted": ("delete", {"file": "old.txt"}),
    "declined": ("delete", {"file": "new.txt"}),
}


async def client(target: Target, protocol: str) -> Seen:
    reports: list[list[Any]] = []
    tools: dict[str, str | None] = {}

    async def elicited(message: str, *_: object) -> ElicitResult[dict[str, Any]]:
        action = answer(message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools.update({each.name: each.description for each in info.function_tools})
        if len(messages) > 1:
            return ModelResponse([TextPart(json.dumps(answers(messages)))])
        return ModelResponse([ToolCallPart(name, given, tool_call_id=key) for key, (name, given) in CALLS.items()])

    transport = StdioTransport(target[0], target[1:]) if isinstance(target, list) else target
    server = Client(transport, mode=protocol, elicitation_handler=elicited, progress_handler=report)
    async with Agent(FunctionModel(model), toolsets=[MCPToolset(server)]) as agent:
        said = json.loads((await agent.run("Do what you have to.")).output)
    return {"tools": tools, "reports": reports, **said}


def answers(messages: list[ModelMessage]) -> dict[str, Any]:
    """What the model is told of its calls: values, and beside what went wrong that it may try again."""
    told = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return {
        part.tool_call_id: part.content if part.outcome == "success" else [part.outcome, part.content] for part in told
    }


if __name__ == "__main__":
    tell(client)
