"""FastMCP: `Client(server).call_tool` in memory, the whole of MCP but the network.

A FastMCP tool is there to be called by a client, and this is the shortest way that goes through the server's
middleware, validation and result conversion as a client sees them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import Client, FastMCP

from bench.limit import add
from bench.peers.report import Add, report


@asynccontextmanager
async def path() -> AsyncIterator[Add]:
    server = FastMCP("bench")
    server.tool(add)
    async with Client(server) as client:
        yield lambda: client.call_tool("add", {"a": 1, "b": 2})


if __name__ == "__main__":
    report("fastmcp", "Client(server).call_tool in memory", path)
