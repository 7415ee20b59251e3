"""FastMCP: `Client(server).call_tool` in memory, the whole of MCP but the network.

Clients call a FastMCP tool, and this is the shortest path that goes through the server's
middleware, validation and result conversion as a client sees them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import Client, FastMCP

from bench.call_limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def open_path() -> AsyncIterator[Add]:
    server = FastMCP("bench")
    server.tool(add)
    async with Client(server) as client:
        yield lambda: client.call_tool("add", {"a": 1, "b": 2})


if __name__ == "__main__":
    report("fastmcp", "Client(server).call_tool in memory", open_path)
