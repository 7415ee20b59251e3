"""Clients of the MCP SDK for a runtime, in both protocols, with every message encoded as JSON."""

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

HANDSHAKE, MODERN = "legacy", "2026-07-28"
ERAS = (HANDSHAKE, MODERN)
TIMEOUT_SECONDS = 20.0
"""Time limit for anything that a test waits for."""


def sdk_client(served: Any, era: str = MODERN, **how: Any) -> Client:
    """A client of a runtime, or of a server; options for the server and for the client."""
    given = {name: how.pop(name) for name in list(how) if name in _OPTIONS}
    server = gateway.mcp.server(served, **given) if isinstance(served, Runtime) else served
    return Client(memory_transport(server), mode=era, cache=None, **how)


_OPTIONS = {"name", "version", "toolset", "user", "short_names", "page"}


@asynccontextmanager
async def memory_transport(server: Any) -> AsyncIterator[tuple[Any, Any]]:
    """An in-memory transport that encodes and decodes every message."""
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
                await target.send(SessionMessage(through_json(message.message)))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def through_json(message: Any) -> Any:
    return jsonrpc_message_adapter.validate_json(message.model_dump_json(by_alias=True, exclude_unset=True))


def within(seconds: float = TIMEOUT_SECONDS) -> AbstractAsyncContextManager[Any]:
    """A time limit for the block."""
    return asyncio.timeout(seconds)


@asynccontextmanager
async def http_server(runtime: Runtime, **options: Any) -> AsyncIterator[str]:
    """Serve a runtime on a free port; gives its URL."""
    from surehand.gateway.mcp.http.server import bind_sockets, listen

    sockets, began = bind_sockets("127.0.0.1", 0), asyncio.Event()
    port = sockets[0].getsockname()[1]
    task = asyncio.create_task(listen(gateway.mcp.app(runtime, **options), sockets, ready=began.set))
    try:
        await began.wait()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def http_client(url: str, era: str = MODERN, token: str | None = None, **how: Any) -> AsyncIterator[Client]:
    """A client of a server at a URL."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS) as web,
        Client(streamable_http_client(url, http_client=web), mode=era, cache=None, **how) as client,
    ):
        yield client
