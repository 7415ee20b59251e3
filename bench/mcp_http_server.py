"""An MCP server of the MCP SDK over HTTP: `python mcp_http_server.py` prints its port, then serves."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from mcp.server import MCPServer

server = MCPServer("web", version="1", log_level="ERROR")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    # As uvicorn does for a socket that it opens itself: without it, the time includes the delay of Nagle's algorithm.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(host="127.0.0.1"), log_level="error")
    asyncio.run(uvicorn.Server(config).serve([listener]))
