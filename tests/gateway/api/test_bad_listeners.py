"""Event streams whose clients are slow, do not read, vanish, or are very many."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from surehand import tool
from surehand.gateway.events.feed import MAX_BUFFERED_EVENTS
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.server import bind_sockets
from tests.gateway.api.served_gateway import ServedGateway, build_runtime, serve, until

PADDING = "x" * 25_000


@tool(effects={"read"})
async def echo(number: int, padding: str = "") -> str:
    """Say it again."""
    return padding


class RawListener:
    """Reads `/api/events` from a socket of its own, whose buffer is as small as the kernel allows."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.numbers: list[int] = []
        self.missed = 0
        self.ids: list[int] = []

    async def read_event(self) -> dict[str, Any]:
        """The next event."""
        event: dict[str, Any] = {}
        while True:
            line = (await self._reader.readline()).decode().strip()
            name, _, value = line.partition(": ")
            if name == "id":
                self.ids.append(int(value.rpartition("-")[2]))
            elif name == "data":
                event = json.loads(value)
            elif not line and event:
                return event
            assert not self._reader.at_eof()

    async def read_until(self, number: int) -> None:
        """Read up to the end of the call with this number, and note the number of each ended call."""
        while number not in self.numbers:
            event = await self.read_event()
            if event["type"] == "Missed":
                self.missed += event["count"]
            elif event["type"] == "CallStarted":
                self.numbers.append(event["arguments"]["number"])


@asynccontextmanager
async def listening(gateway: ServedGateway, *, buffer_bytes: int = 0) -> AsyncIterator[RawListener]:
    """A listener that the gateway has accepted."""
    port = int(gateway.url.rpartition(":")[2])
    client = socket.socket()
    if buffer_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1 << 20)
    try:
        writer.write(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        while (await reader.readline()) != b": ping\n":
            assert not reader.at_eof()
        yield RawListener(reader, writer)
    finally:
        writer.close()


async def call_echo(gateway: ServedGateway, count: int, padding: str = "") -> None:
    """Make calls one after the other."""
    runtime = gateway.api.gateway.runtime
    for number in range(count):
        assert (await runtime.call("echo", {"number": number, "padding": padding})).ok
        await asyncio.sleep(0)  # a listener that reads gets its turn


async def test_a_client_that_does_not_read_gets_the_number_of_events_that_it_missed() -> None:
    calls = 900
    async with serve(build_runtime(echo)) as gateway, listening(gateway, buffer_bytes=4_096) as idle:
        async with listening(gateway) as reader:
            await asyncio.gather(call_echo(gateway, calls, PADDING), reader.read_until(calls - 1))
        assert reader.missed == 0
        assert reader.ids == sorted(set(reader.ids))

        event: dict[str, Any] = {}
        count = 0
        while event.get("type") != "Missed":
            event = await idle.read_event()
            count += event["type"] != "Missed"
    # What it did get is complete up to the gap: what was sent to the kernel, and what the gateway has buffered.
    assert idle.ids == list(range(idle.ids[0], idle.ids[0] + count))
    assert count >= MAX_BUFFERED_EVENTS
    assert count + event["count"] >= 2 * calls - 1


async def test_a_client_that_does_not_read_for_too_long_is_disconnected() -> None:
    connections = ConnectionLimits(write_timeout=0.3)
    async with (
        serve(build_runtime(echo), connections=connections) as gateway,
        listening(gateway, buffer_bytes=4_096),
    ):
        assert gateway.api.gateway.feed.listener_count == 1
        await call_echo(gateway, 500, PADDING)
        await until(lambda: not gateway.api.gateway.feed.listener_count)


def send_end(client: socket.socket) -> None:
    """Send the end of what the client sends, and go on to receive."""
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    """Close the connection as the kernel does for a process that was killed with unread data."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("leave", [send_end, reset])
async def test_a_stream_of_a_half_open_connection_ends(leave: Callable[[socket.socket], None]) -> None:
    async with serve(build_runtime()) as gateway:
        address = gateway.url.removeprefix("http://")
        host, _, port = address.partition(":")
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, (host, int(port)))
            await loop.sock_sendall(client, f"GET /api/events HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            received = b""
            while b": ping" not in received:
                received += await loop.sock_recv(client, 4_096)
            was_listening = gateway.api.gateway.feed.listener_count
            leave(client)
            await until(lambda: not gateway.api.gateway.feed.listener_count)

    assert was_listening == 1


def test_the_kernel_gives_up_a_client_that_acknowledges_nothing() -> None:
    """Such as one whose machine lost its network: it sends no end of the connection."""
    [server] = bind_sockets("127.0.0.1", 0)
    server.listen()
    with server, socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


@pytest.mark.parametrize("count", [20, pytest.param(1_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_many_listeners_get_every_event_in_bounded_memory(tmp_path: Path, count: int) -> None:
    calls = 30
    connections = ConnectionLimits(max_connections=2 * count + 100)
    process = psutil.Process()
    async with serve(build_runtime(echo, store=tmp_path / "calls.db"), connections=connections) as gateway:
        contexts = [listening(gateway) for _ in range(count)]
        listeners = [await each.__aenter__() for each in contexts]
        assert gateway.api.gateway.feed.listener_count == count
        memory = process.memory_info().rss
        reading = [asyncio.create_task(each.read_until(calls - 1)) for each in listeners]
        await call_echo(gateway, calls)
        await asyncio.gather(*reading)
        grown = process.memory_info().rss - memory
        for each in contexts:
            await each.__aexit__(None, None, None)

    assert all(each.numbers == list(range(calls)) for each in listeners)
    assert all(each.ids == listeners[0].ids and each.missed == 0 for each in listeners)
    assert grown < 20_000_000 + 100_000 * count  # of the listeners in this process, too
