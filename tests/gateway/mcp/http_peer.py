"""A runtime served on a free port, and a client that sends any bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from surehand import Runtime, gateway
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.server import bind_sockets, listen
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, call, message

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
Header = tuple[str, str]


@dataclass(frozen=True)
class HttpAnswer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The JSON body, or the data of the first event."""
        text = self.body.decode()
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            text = next(each[5:] for each in text.splitlines() if each.startswith("data:") and each[5:].strip())
        return json.loads(text)

    @property
    def error(self) -> int:
        code: int = self.json["error"]["code"]
        return code


class RawConnection:
    """A connection over which any bytes can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> HttpAnswer:
        """Read one response, with a content length or chunked."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, *lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines if each)
            }
            return HttpAnswer(int(status.split()[1]), headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if (length := headers.get("content-length")) is not None:
            return await self.reader.readexactly(int(length))
        whole = b""
        while headers.get("transfer-encoding") == "chunked":
            size = int(await self.reader.readline(), 16)
            whole += (await self.reader.readexactly(size + 2))[:-2]
            if not size:
                return whole
        return whole

    async def ends(self) -> bool:
        """Whether the server closes the connection in time."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                with suppress(ConnectionError):
                    while await self.reader.read(1 << 16):
                        pass
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def request(
    body: Any = b"", *headers: Header, method: str = "POST", path: str = "/mcp", host: str = "localhost"
) -> bytes:
    """A request with these headers and the usual ones."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {name.lower() for name, _ in headers}
    usual = {
        "Host": host,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
    }
    lines = [*((name, value) for name, value in usual.items() if name.lower() not in known), *headers]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data


def modern_request(method: str, id: Any = 1, /, *headers: Header, **params: Any) -> bytes:
    """A request of the modern protocol with its headers."""
    name = params.get("name") or params.get("uri") or params.get("taskId")
    known = {each.lower() for each, _ in headers}
    usual = [("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", method), *([("Mcp-Name", name)] if name else [])]
    given = [each for each in usual if each[0].lower() not in known]
    return request(message(method, id, **{"_meta": META, **params}), *given, *headers)


def call_request(tool: str, /, *headers: Header, id: Any = 1, **arguments: Any) -> bytes:
    """A `tools/call` request of the modern protocol."""
    return modern_request("tools/call", id, *headers, name=tool, arguments=arguments)


@dataclass(frozen=True)
class HttpSite:
    """A served runtime."""

    port: int
    task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def connect(self) -> RawConnection:
        return RawConnection(*await asyncio.open_connection("127.0.0.1", self.port))

    async def ask(self, data: bytes) -> HttpAnswer:
        """Send one request over a new connection."""
        connection = await self.connect()
        try:
            with suppress(ConnectionError):
                await connection.send(data)
            return await connection.answer()
        finally:
            await connection.close()

    async def session(self, *headers: Header) -> tuple[Header, ...]:
        """Open a session of the handshake protocol; gives its headers."""
        about = {"name": "web", "version": "1"}
        hello = message("initialize", 0, protocolVersion=HANDSHAKE_VERSION, capabilities={}, clientInfo=about)
        answer = await self.ask(request(hello, *headers))
        assert answer.status == 200, answer
        known = (
            *headers,
            ("Mcp-Session-Id", answer.headers["mcp-session-id"]),
            ("MCP-Protocol-Version", HANDSHAKE_VERSION),
        )
        assert (await self.ask(request(message("notifications/initialized"), *known))).status == 202
        return known

    async def calls(self, known: tuple[Header, ...], tool: str, **arguments: Any) -> HttpAnswer:
        """A call in a session."""
        return await self.ask(request(call(1, tool, **arguments), *known))


@asynccontextmanager
async def http_site(*tools: Any, limits: ConnectionLimits | None = None, **options: Any) -> AsyncIterator[HttpSite]:
    """Serve a runtime with these tools on a free port."""
    runtime = tools[0] if tools and isinstance(tools[0], Runtime) else Runtime(*tools)
    async with serve_app(gateway.mcp.app(runtime, **options), limits) as site:
        yield site


@asynccontextmanager
async def serve_app(app: Any, limits: ConnectionLimits | None = None) -> AsyncIterator[HttpSite]:
    """Serve an app on a free port."""
    sockets, ready = bind_sockets("127.0.0.1", 0), asyncio.Event()
    limits = limits or ConnectionLimits(stop_timeout=0.2)
    task = asyncio.create_task(listen(app, sockets, ready=ready.set, limits=limits))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        await task
    try:
        yield HttpSite(sockets[0].getsockname()[1], task)
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=TIMEOUT_SECONDS)
        assert task.done()
