"""A real server written with the MCP SDK: `python friendly_server.py` serves over stdio."""

import asyncio
import os
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel


class Confirm(BaseModel):
    ok: bool


async def confirmation(path: str) -> Elicit[Confirm]:
    return Elicit(message=f"Delete {path}?", schema=Confirm)


def server(name: str = "friendly") -> MCPServer:
    """Tools for every kind of test; `FRIENDLY_NOTES` names the file that `note` writes to."""
    mcp = MCPServer(name, version="1.0", instructions="Be friendly.", log_level="WARNING")

    @mcp.tool()
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @mcp.tool()
    async def echo(text: str) -> str:
        """Give back the text."""
        return text

    @mcp.tool()
    async def slow(ctx: Context, steps: int = 3, seconds: float = 0.01) -> str:
        """Take a while, and tell how far it is."""
        for step in range(1, steps + 1):
            await asyncio.sleep(seconds)
            await ctx.report_progress(step, steps, f"step {step}")
        return "done"

    @mcp.tool()
    async def crash(code: int = 3) -> str:
        """End the process at once."""
        print("about to crash", file=sys.stderr, flush=True)
        os._exit(code)

    @mcp.tool()
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return "never"

    @mcp.tool()
    async def grow(ctx: Context, named: str = "added") -> str:
        """Add a tool, and tell those who listen."""
        mcp.add_tool(add, name=named)
        await ctx.notify_tools_changed()
        if (ctx.protocol_version or "") < "2026":
            await ctx.session.send_tool_list_changed()
        return "grown"

    @mcp.tool()
    async def ask(path: str, confirm: Annotated[ElicitationResult[Confirm], Resolve(confirmation)]) -> str:
        """Delete a path, if a person agrees."""
        return "deleted" if isinstance(confirm, AcceptedElicitation) and confirm.data.ok else "kept"

    @mcp.tool()
    async def big(size: int) -> str:
        """A text of that many characters."""
        return "x" * size

    @mcp.tool()
    async def note(text: str) -> int:
        """Append a line to a file: an effect that can be counted."""
        path = os.environ["FRIENDLY_NOTES"]
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")
        with open(path, encoding="utf-8") as file:
            return sum(1 for _ in file)

    @mcp.tool()
    async def environment(name: str) -> str | None:
        """The value of an environment variable."""
        return os.environ.get(name)

    @mcp.tool()
    async def process() -> int:
        """The number of the process."""
        return os.getpid()

    return mcp


if __name__ == "__main__":
    server().run()
