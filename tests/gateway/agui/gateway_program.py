"""`python gateway_program.py FOLDER PORT`: a gateway with two agents, whose models go by the conversation alone."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from surehand import Agent, Runtime, tool
from surehand.gateway.http_app import app
from surehand.gateway.mcp.http.server import bind_sockets, listen
from surehand.testing import ScriptedModel

FOLDER = Path(sys.argv[1])


@tool(effects={"write"}, confirm=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    with (FOLDER / "effects.txt").open("a") as file:
        file.write(f"paid {amount}\n")
    return f"paid {amount}"


@tool(effects={"read"}, timeout="off")
async def look() -> str:
    """Look until there is something to see."""
    (FOLDER / "looking").touch()
    while not (FOLDER / "seen").exists():  # noqa: ASYNC110 - the file is made by another process
        await asyncio.sleep(0.05)
    return "a bird"


def model(call: tuple[str, dict[str, Any]], end: str) -> ScriptedModel:
    """A model that makes one call, and then says something."""

    def reply(messages: list[Any]) -> Any:
        return end if any(each["role"] == "tool" for each in messages) else [call]

    return ScriptedModel(*[reply] * 9)


async def main() -> None:
    payer = Agent("payer", model=model(("pay", {"amount": 5}), "It is paid."), tools=[pay])
    looker = Agent("looker", model=model(("look", {}), "I have seen it."), tools=[look])
    api = app(Runtime(store=FOLDER / "calls.db"), agents=[payer, looker])
    sockets = bind_sockets("127.0.0.1", int(sys.argv[2]))
    await listen(api, sockets, ready=lambda: print("ready", flush=True), on_stop=api.begin_shutdown)


asyncio.run(main())
