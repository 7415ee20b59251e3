"""A client that uses the tools through LangChain's MCP adapters."""

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitRequestParams, ElicitResult
from observations import Observations, Target, answer, print_observations


async def client(target: Target, _: str) -> Observations:
    reports: list[list[Any]] = []

    async def answer_elicitation(_: object, params: ElicitRequestParams, __: object) -> ElicitResult:
        action = answer(params.message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def report(progress: float, total: float | None, message: str | None, _: object) -> None:
        reports.append([progress, total, message])

    callbacks = Callbacks(on_progress=report, on_elicitation=answer_elicitation)
    servers = MultiServerMCPClient({"surehand": connection(target)}, callbacks=callbacks)
    async with servers.session("surehand") as session:
        tools = {each.name: each for each in await load_mcp_tools(session, callbacks=callbacks)}

        async def call(name: str, **arguments: Any) -> ToolMessage:
            return await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})

        added, counted = await call("add", a=1, b=2), await call("count", to=2)
        failed = await call("look_up", word="xyzzy")
        accepted, declined = await call("delete", file="old.txt"), await call("delete", file="new.txt")
    return {
        "tools": {name: each.description for name, each in tools.items()},
        "added": [text(added), added.artifact["structured_content"]],
        "counted": text(counted),
        "reports": reports,
        "failed": text(failed) if failed.status == "error" else None,
        "accepted": text(accepted),
        "declined": text(declined) if declined.status == "error" else None,
    }


def connection(target: Target) -> Any:
    if isinstance(target, list):
        return {"transport": "stdio", "command": target[0], "args": target[1:]}
    return {"transport": "streamable_http", "url": target}


def text(message: ToolMessage) -> str:
    return "".join(block["text"] for block in message.content)


if __name__ == "__main__":
    print_observations(client)
