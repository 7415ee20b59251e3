"""Serves an app of the MCP SDK on a free port with uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn


@asynccontextmanager
async def serve_app(app: Any) -> AsyncIterator[str]:
    """Serve the app; gives the URL of its `/mcp`."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    # httptools keeps white space after a header's value, and the MCP SDK would treat it as part of the value.
    config = uvicorn.Config(app, http="h11", log_config=None, ws="none", lifespan="on", timeout_graceful_shutdown=1)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listener]), name="sdk server")
    try:
        await _wait_for_start(server, serving)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """Does not install signal handlers, and signals when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.started_event = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.started_event.set()

    def capture_signals(self) -> Any:
        return nullcontext()


async def _wait_for_start(server: _Server, serving: asyncio.Task[None]) -> None:
    started_event = asyncio.create_task(server.started_event.wait())
    await asyncio.wait({started_event, serving}, return_when=asyncio.FIRST_COMPLETED)
    started_event.cancel()
    if not server.started:
        await serving
        raise RuntimeError("the server did not start")
