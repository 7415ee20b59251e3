"""A client that writes and reads any lines, over pipes to a server in this process or to a process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from surehand import Runtime, gateway
from surehand.gateway.mcp.stdio.connection import serve_connection
from surehand.gateway.mcp.stdio.limits import StdioLimits
from surehand.gateway.mcp.stdio.serve import message_streams

TIMEOUT_SECONDS = 20.0
"""Time limit for anything that a test waits for."""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
}


def message(method: str, id: Any = None, /, **params: Any) -> dict[str, Any]:
    """A request, or a notification where no id is given."""
    named = {} if id is None else {"id": id}
    return {"jsonrpc": "2.0", **named, "method": method, "params": params}


def call(id: Any, tool: str, modern: bool = False, /, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    return message("tools/call", id, name=tool, arguments=arguments, **({"_meta": META} if modern else {}))


def encode_line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


class StdioPeer:
    """The client's end of a stdio connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.server: asyncio.Task[None] | None = None

    async def send(self, *values: Any) -> None:
        """Send messages, or bytes unchanged, in one write."""
        self.writer.write(b"".join(each if isinstance(each, bytes) else encode_line(each) for each in values))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self.writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            came = await self.reader.readline()
        if not came:
            raise EOFError
        found: dict[str, Any] = json.loads(came)
        return found

    async def answers(self, number: int) -> dict[Any, dict[str, Any]]:
        """The next messages, by their ids."""
        return {each.get("id"): each for each in [await self.receive() for _ in range(number)]}

    async def ask(self, value: Any) -> dict[str, Any]:
        """Send a message and receive the next one."""
        await self.send(value)
        return await self.receive()

    async def handshake(self, **capabilities: Any) -> dict[str, Any]:
        """Make the handshake."""
        about = {"name": "lines", "version": "1"}
        hello = message(
            "initialize", "hello", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=about
        )
        answer = await self.ask(hello)
        await self.send(message("notifications/initialized"))
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """Close the server's input."""
        self.writer.close()


async def peer_on(reading: int, writing: int) -> StdioPeer:
    """A peer that owns two file descriptors."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(writing, "wb", 0))
    return StdioPeer(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


@asynccontextmanager
async def stdio_peer(*tools: Any, limits: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[StdioPeer]:
    """A peer of a runtime with these tools, over two pipes."""
    runtime = tools[0] if tools and isinstance(tools[0], Runtime) else Runtime(*tools)
    there, ours = os.pipe()
    mine, theirs = os.pipe()

    async def serve() -> None:
        async with message_streams((there, theirs), StdioLimits(**limits or {})) as (incoming, outgoing):
            await serve_connection(gateway.mcp.server(runtime, **options), incoming, outgoing)

    peer = await peer_on(mine, ours)
    peer.server = asyncio.create_task(serve())
    try:
        yield peer
    finally:
        peer.close()
        unread = asyncio.create_task(_read_to_end(peer.reader))
        try:
            await asyncio.wait_for(peer.server, TIMEOUT_SECONDS)
        finally:
            os.close(there)
            os.close(theirs)
            await unread


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    """Read to the end: a server that shuts down still writes responses."""
    reader._transport.resume_reading()  # type: ignore[attr-defined]
    while await reader.read(1 << 20):
        pass
