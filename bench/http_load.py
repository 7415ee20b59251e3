"""A lean HTTP client for load: connections that send one prepared request again and again, parsed by httptools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpResponseParser


class LoadConnection(asyncio.Protocol):
    """One connection, with at most one request in flight."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[int] | None = None
        self.body = b""
        """The body of the last response."""
        self.headers: dict[bytes, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError("The server closed the connection."))

    def on_message_begin(self) -> None:
        self.body = b""
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(self._parser.get_status_code())

    @property
    def is_closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def send(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; the future has the status of its response."""
        assert self._transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def post_request(url: str, path: str, body: bytes, headers: str = "") -> bytes:
    """The bytes of a POST of JSON; `headers` are further lines."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{headers}\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def open_connections(url: str, count: int) -> AsyncIterator[list[LoadConnection]]:
    """Connections to a server."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    loop = asyncio.get_running_loop()
    connections: list[LoadConnection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(LoadConnection, address.hostname, address.port)
            connections.append(connection)
        yield connections
    finally:
        for each in connections:
            each.close()


async def time_requests(connections: list[LoadConnection], request: bytes, count: int) -> float:
    """Seconds for a number of requests, of which each connection has one in flight; all have to get a 200."""
    left = count

    async def send_again(connection: LoadConnection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            status = await connection.send(request)
            if status != 200:
                raise AssertionError(f"The server answered {status}: {connection.body[:200]!r}")

    started_at = perf_counter()
    async with asyncio.TaskGroup() as group:
        for each in connections:
            group.create_task(send_again(each))
    return perf_counter() - started_at
