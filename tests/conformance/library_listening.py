"""The library's server on a port of this machine, with the web server that most would take."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Where its `/mcp` is."""
    port = socket.create_server(("127.0.0.1", 0), backlog=128)
    # With httptools, white space after the value of a header reaches the SDK, which takes it for a part of the value.
    config = uvicorn.Config(app, http="h11", log_config=None, ws="none", lifespan="on", timeout_graceful_shutdown=1)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([port]), name="listening")
    try:
        await _started(server, serving)
        yield f"http://127.0.0.1:{port.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """It leaves the signals of the process to whoever has them."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    def capture_signals(self) -> Any:
        return nullcontext()


async def _started(server: _Server, serving: asyncio.Task[None]) -> None:
    up = asyncio.create_task(server.up.wait())
    await asyncio.wait({up, serving}, return_when=asyncio.FIRST_COMPLETED)
    up.cancel()
    if not server.started:
        await serving
        raise RuntimeError("the server did not start")
