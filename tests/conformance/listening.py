"""An app of ours on a port of this machine, as `surehand mcp --http` has it there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from surehand import gateway


@asynccontextmanager
async def listening(app: Starlette) -> AsyncIterator[str]:
    """Where its `/mcp` is."""
    sockets, ready = gateway.mcp.bound("127.0.0.1", 0), asyncio.Event()
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp"

    async def serve() -> None:
        await gateway.mcp.listen(app, sockets, ready=ready.set)
        raise RuntimeError("A signal has ended it.")

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await ready.wait()
        yield url
        serving.cancel()
