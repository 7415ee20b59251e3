"""A model server that sends prepared bytes: for answers that no well-behaved server would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""The body of a stream, or a function that writes the whole response itself."""
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


class ByteServer:
    """Gives its replies one after another, the last one again and again, and records what it was sent."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.closed_by_client = asyncio.Event()
        """A client closed its connection before its response was complete."""
        self.url = ""
        self.connections: set[asyncio.Task[Any] | None] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            self.headers.append(headers)
            self.bodies.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
            if isinstance(reply, bytes):
                # Without a length and without chunks, the end of the connection is the end of the body.
                writer.write(_STREAM_HEAD + reply)
                await writer.drain()
            else:
                answering = asyncio.ensure_future(reply(writer))
                hanging_up = asyncio.ensure_future(reader.read())
                await asyncio.wait({answering, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    self.closed_by_client.set()
                answering.cancel()
                hanging_up.cancel()
                await asyncio.wait({answering, hanging_up})
        finally:
            writer.close()


@asynccontextmanager
async def serve(*replies: Reply) -> AsyncIterator[ByteServer]:
    """A server on loopback; `url` is the base URL for a model."""
    byte_server = ByteServer(*replies)
    server = await asyncio.start_server(byte_server.answer, "127.0.0.1", 0)
    byte_server.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield byte_server
        if byte_server.connections:
            await asyncio.wait({task for task in byte_server.connections if task is not None})


def error_response(status: int, body: Any, **headers: str) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """A reply with an error status."""
    content = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Error", "content-type: application/json", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()

    return write


def stream_then(first: bytes, wait: Callable[[], Awaitable[Any]]) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """A reply that begins a stream and then waits before it ends."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(_STREAM_HEAD + first)
        await writer.drain()
        await wait()

    return write


def stream_then_repeat(first: bytes, heartbeat: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """A reply that begins a stream and then sends heartbeats, until the client hangs up."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(_STREAM_HEAD + first)
        while True:
            writer.write(heartbeat)
            await writer.drain()
            await asyncio.sleep(0.05)

    return write
