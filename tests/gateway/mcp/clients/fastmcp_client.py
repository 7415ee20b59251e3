"""A client that uses FastMCP's `Client`."""

from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from observations import Observations, Target, answer, print_observations


async def client(target: Target, protocol: str) -> Observations:
    reports: list[list[Any]] = []

    async def answer_elicitation(message: str, *_: object) -> ElicitResult[dict[str, Any]]:
        action = answer(message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])

    transport = StdioTransport(target[0], target[1:]) if isinstance(target, list) else target
    options = {"mode": protocol, "elicitation_handler": answer_elicitation, "progress_handler": report}
    async with Client(transport, **options) as server:
        tools = {each.name: each.description for each in await server.list_tools()}
        added = await server.call_tool("add", {"a": 1, "b": 2})
        counted = await server.call_tool("count", {"to": 2})
        deleted = await server.call_tool("delete", {"file": "old.txt"})
        return {
            "tools": tools,
            "added": [added.content[0].text, added.structured_content],
            "counted": counted.content[0].text,
            "reports": reports,
            "failed": await problem(server, "look_up", {"word": "xyzzy"}),
            "accepted": deleted.content[0].text,
            "declined": await problem(server, "delete", {"file": "new.txt"}),
        }


async def problem(server: Client[Any], name: str, arguments: dict[str, Any]) -> str | None:
    try:
        await server.call_tool(name, arguments)
    except ToolError as error:
        return str(error)
    return None


if __name__ == "__main__":
    print_observations(client)
