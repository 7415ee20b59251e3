"""FastMCP's proxy for an MCP server, which is given by its URL or its command.

python fastmcp_proxy.py stdio|http fresh|shared URL|COMMAND...    over HTTP it prints its port, then serves.
fresh: a new session with the server per request, the default of `create_proxy`; shared: one session for all requests.
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
    server: Any = target if target.startswith("http://") else StdioTransport(target, list(arguments))
    shared = Client(server) if sessions == "shared" else None
    async with shared or nullcontext():
        await serve(front, create_proxy(shared or server, name="front"))


async def serve(front: str, proxy: FastMCP[Any]) -> None:
    if front == "stdio":
        await proxy.run_async("stdio", show_banner=False, log_level="ERROR")
    else:
        await serve_http(proxy.http_app())


async def serve_http(app: Any) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn does for a socket that it opens itself
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main(*sys.argv[1:]))
