"""Serves an app of our gateway on a free port, in the same way as `surehand mcp --http`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from surehand import gateway


@asynccontextmanager
async def serve_app(app: Starlette) -> AsyncIterator[str]:
    """Serve the app; gives the URL of its `/mcp`."""
    sockets, ready = gateway.mcp.bind_sockets("127.0.0.1", 0), asyncio.Event()
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp"

    async def serve() -> None:
        await gateway.mcp.listen(app, sockets, ready=ready.set)
        raise RuntimeError("The server was ended by a signal.")

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await ready.wait()
        yield url
        serving.cancel()
