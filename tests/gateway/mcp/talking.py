"""Clients of the library that talk to a runtime, in either protocol, through real JSON."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from surehand import Runtime, gateway

OLD, NEW = "legacy", "2026-07-28"
ERAS = (OLD, NEW)
SOON = 20.0
"""Seconds within which what has to happen happens."""


def talking(served: Any, era: str = NEW, **how: Any) -> Client:
    """A client of a runtime, or of a server that was made of one; options for either."""
    given = {name: how.pop(name) for name in list(how) if name in _OPTIONS}
    server = gateway.mcp.server(served, **given) if isinstance(served, Runtime) else served
    return Client(wire(server), mode=era, cache=None, **how)


_OPTIONS = {"name", "version", "toolset", "user", "short_names", "page"}


@asynccontextmanager
async def wire(server: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A transport in memory, on which every message is bytes on its way."""
    to_server, at_server = anyio.create_memory_object_stream[Any](0)
    from_client, to_pump = anyio.create_memory_object_stream[Any](0)
    from_server, from_pump = anyio.create_memory_object_stream[Any](0)
    to_client, at_client = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pump, to_pump, to_server)
        tasks.start_soon(_pump, from_pump, to_client)
        tasks.start_soon(server.run, at_server, from_server, server.create_initialization_options())
        try:
            yield at_client, from_client
        finally:
            for stream in (from_client, at_client):
                await stream.aclose()


async def _pump(source: Any, target: Any) -> None:
    async with source, target:
        async for message in source:
            try:
                await target.send(SessionMessage(passed(message.message)))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def passed(message: Any) -> Any:
    return jsonrpc_message_adapter.validate_json(message.model_dump_json(by_alias=True, exclude_unset=True))


def within(seconds: float = SOON) -> AbstractAsyncContextManager[Any]:
    """What takes longer has failed."""
    return asyncio.timeout(seconds)


@asynccontextmanager
async def over_http(runtime: Runtime, **options: Any) -> AsyncIterator[str]:
    """A runtime on a port of this machine; its address."""
    from surehand.gateway.mcp.http.server import bound, listen

    sockets, began = bound("127.0.0.1", 0), asyncio.Event()
    port = sockets[0].getsockname()[1]
    task = asyncio.create_task(listen(gateway.mcp.app(runtime, **options), sockets, ready=began.set))
    try:
        await began.wait()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def visiting(url: str, era: str = NEW, token: str | None = None, **how: Any) -> AsyncIterator[Client]:
    """A client of an address."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SOON) as web,
        Client(streamable_http_client(url, http_client=web), mode=era, cache=None, **how) as client,
    ):
        yield client
