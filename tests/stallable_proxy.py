"""A TCP proxy on loopback before a PostgreSQL server, which can swallow all packets without closing a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

PORT_OF_SOCKET = 5432


class StallableProxy:
    """Forwards bytes both ways, except while it is stalled."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepts = asyncio.Event()
        self._accepts.set()
        self.connection_count = 0

    def stall(self) -> None:
        """From now on, no byte gets through; connections stay open, and new ones are accepted."""
        self._flows.clear()

    def hold_new_connections(self) -> None:
        """Accept new connections, but forward none of them."""
        self._accepts.clear()

    def resume(self) -> None:
        """Deliver what has been held back, and everything after it."""
        self._flows.set()
        self._accepts.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            await self._accepts.wait()
            await self._flows.wait()
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket_path)
            writers.append(server_writer)
            await asyncio.gather(self._forward(reader, server_writer), self._forward(server_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.close()
                with suppress(OSError, asyncio.CancelledError):
                    await each.wait_closed()
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        await self._flows.wait()
        writer.close()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def proxied(address: str) -> AsyncIterator[tuple[str, StallableProxy]]:
    """The address of a proxy before the server of `address`, and the proxy."""
    parts = urlsplit(address)
    query = parse_qs(parts.query)
    proxy = StallableProxy(f"{query['host'][0]}/.s.PGSQL.{PORT_OF_SOCKET}")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = parts.query.partition("options=")[2]
    suffix = f"?options={options}" if options else ""
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}{parts.path}{suffix}", proxy
    finally:
        server.close()
        await proxy.close()
