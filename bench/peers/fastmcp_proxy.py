"""FastMCP's proxy in front of an MCP server, which is named by its URL or its command.

python fastmcp_proxy.py stdio|http fresh|shared URL|COMMAND...    over HTTP it prints its port, and serves.
fresh: a session behind for each request, as `create_proxy` does by itself; shared: one for all, which it can be given.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from contextlib import nullcontext
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main(front: str, sessions: str, target: str, *arguments: str) -> None:
    reached: Any = target if target.startswith("http://") else StdioTransport(target, list(arguments))
    shared = Client(reached) if sessions == "shared" else None
    async with shared or nullcontext():
        await serve(front, create_proxy(shared or reached, name="front"))


async def serve(front: str, proxy: FastMCP[Any]) -> None:
    if front == "stdio":
        await proxy.run_async("stdio", show_banner=False, log_level="ERROR")
    else:
        await over_http(proxy.http_app())


async def over_http(app: Any) -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn does where it opens the socket itself
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listening])


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main(*sys.argv[1:]))
