"""An HTTP server written by hand, for which each test sets the answer byte for byte."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

SERVERS_BY_URL: dict[str, asyncio.Server] = {}
"""The running servers, for tests that close one."""
_TCP_FIN_WAIT1 = 4
"""Linux's state of a connection whose end the other side has not acknowledged."""


@dataclass
class RawRequest:
    """A request as it arrived, and ways to answer it."""

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
        """Close the connection, and block the event loop until the other side has acknowledged it."""
        ours = self.writer.get_extra_info("socket")._sock
        with suppress(OSError):  # already closed
            ours.shutdown(socket.SHUT_RDWR)
            while ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_FIN_WAIT1:
                pass
        self.writer.transport.abort()

    async def result(self, result: dict[str, Any], **headers: str) -> None:
        await self.answer(200, {"jsonrpc": "2.0", "id": self.message["id"], "result": result}, **headers)

    async def events(self, *events: str) -> None:
        """Start an event stream, which ends when the connection is closed."""
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for event in events:
            await self.event(event)

    async def event(self, text: str) -> None:
        self.writer.write(text.encode() + b"\n\n")
        await self.writer.drain()


@asynccontextmanager
async def serve_raw_http(
    handle: Callable[[RawRequest], Awaitable[None]], host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Serve on loopback; gives the root URL. A handler may return without an answer."""
    connections: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            while (request := await _read_request(reader, writer)) is not None:
                await handle(request)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connections.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, limit=16 << 20)
    url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    SERVERS_BY_URL[url] = server
    try:
        yield url
    finally:
        del SERVERS_BY_URL[url]
        server.close()
        for task in list(connections):
            task.cancel()
        if connections:
            await asyncio.wait(connections)


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> RawRequest | None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return RawRequest(method, path, headers, body, writer)
    return None
