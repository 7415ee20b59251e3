"""An HTTP server by hand: each test says, byte for byte, what it answers."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

LISTENING: dict[str, asyncio.Server] = {}
"""Who listens, by URL: to be closed by a test in which a server goes away."""
_UNCONFIRMED = 4
"""Linux's number for a connection whose end the other side has not confirmed."""


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter = field(repr=False)

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body) if self.body else {}

    async def answer(self, status: int = 200, body: bytes | str | dict[str, Any] = b"", **headers: str) -> None:
        if isinstance(body, dict):
            headers.setdefault("content_type", "application/json")
            body = json.dumps(body)
        raw = body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(raw)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
        await self.writer.drain()

    def hang_up(self) -> None:
        """Close the connection, and wait until the other side could know; the event loop has no turn meanwhile."""
        ours = self.writer.get_extra_info("socket")._sock
        with suppress(OSError):  # it is closed already
            ours.shutdown(socket.SHUT_RDWR)
            while ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _UNCONFIRMED:
                pass
        self.writer.transport.abort()

    async def result(self, result: dict[str, Any], **headers: str) -> None:
        await self.answer(200, {"jsonrpc": "2.0", "id": self.message["id"], "result": result}, **headers)

    async def events(self, *events: str) -> None:
        """Begin a stream of events, which ends when the connection is closed."""
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for event in events:
            await self.event(event)

    async def event(self, text: str) -> None:
        self.writer.write(text.encode() + b"\n\n")
        await self.writer.drain()


@asynccontextmanager
async def bare(handle: Callable[[Asked], Awaitable[None]], host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve on loopback; gives the URL of the root. A handler that returns without an answer breaks off."""
    open_ones: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        try:
            while (asked := await _asked(reader, writer)) is not None:
                await handle(asked)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            open_ones.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, limit=16 << 20)
    url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    LISTENING[url] = server
    try:
        yield url
    finally:
        del LISTENING[url]
        server.close()
        for task in list(open_ones):
            task.cancel()
        if open_ones:
            await asyncio.wait(open_ones)


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(method, path, headers, body, writer)
    return None
