"""The library's own server over HTTP: `python mcp_web.py` prints its port, and serves."""

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
    listening = socket.create_server(("127.0.0.1", 0))
    # As on a socket that uvicorn opens by itself; else what is measured is how long the kernel holds a packet back.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(host="127.0.0.1"), log_level="error")
    asyncio.run(uvicorn.Server(config).serve([listening]))
