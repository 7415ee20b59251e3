"""Benchmark of event streams: calls whose events go to 200 listeners, compared with the same bytes by sse-starlette."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

from bench.gateway_calls import BODY, start_server
from bench.http_load import LoadConnection, open_connections, post_request
from bench.measure import TimedRound, measure_ratio
from bench.table import Row

LISTENERS = 200
LAST_EVENT = b"event: CallEnded"


async def measure_event_streams(*, rounds: int = 21, count: int = 20, listeners: int = LISTENERS) -> list[Row]:
    """Measure calls, one after the other, until every listener has read the two events of each."""
    async with start_server("gateway") as ours, start_server("bare-events") as bare:
        request_ours = post_request(ours, "/api/tools/add/call", BODY)
        async with (
            open_connections(ours, 1) as [to_ours],
            open_connections(bare, 1) as [to_bare],
            open_listeners(ours, listeners) as our_listeners,
            open_listeners(bare, listeners) as bare_listeners,
        ):
            events = await _events_of_a_call(to_ours, request_ours, our_listeners)
            request_bare = post_request(bare, "/emit", json.dumps(events).encode())
            ratio = await measure_ratio(
                _time_fan_out(to_ours, request_ours, our_listeners, count),
                _time_fan_out(to_bare, request_bare, bare_listeners, count),
                rounds=rounds,
            )
    return [Row(f"events of calls to {listeners} listeners / the same bytes by a bare sse-starlette app", ratio)]


class EventListener(asyncio.Protocol):
    """A connection that reads an event stream, and counts the events that end a call."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self._expected = 0
        self.received = b""
        """The bytes since the last `expect`."""
        self.has_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_all: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def expect(self, count: int) -> asyncio.Future[None]:
        """A future that is done once so many further events have arrived."""
        self._expected = count
        self.received = b""
        self.has_all = asyncio.get_running_loop().create_future()
        return self.has_all

    def data_received(self, data: bytes) -> None:
        if not self.has_begun.done() and b"\r\n\r\n" in data:
            self.has_begun.set_result(None)
        self.received += data
        seen = self._tail + data
        self._expected -= seen.count(LAST_EVENT)
        self._tail = seen[-len(LAST_EVENT) + 1 :]
        if self._expected <= 0 and not self.has_all.done():
            self.has_all.set_result(None)


@asynccontextmanager
async def open_listeners(url: str, count: int) -> AsyncIterator[list[EventListener]]:
    """Listeners of `/api/events`, of which each hears what is sent from now on."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    request = f"GET /api/events HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
    transports = []
    listeners = []
    try:
        for _ in range(count):
            transport, listener = await asyncio.get_running_loop().create_connection(
                lambda: EventListener(request), address.hostname, address.port
            )
            transports.append(transport)
            listeners.append(listener)
        await asyncio.gather(*(each.has_begun for each in listeners))
        yield listeners
    finally:
        for each in transports:
            each.abort()


async def _events_of_a_call(
    connection: LoadConnection, request: bytes, listeners: list[EventListener]
) -> list[tuple[str, str]]:
    """The names and data of the events of one call, as a listener reads them."""
    waiting = [each.expect(1) for each in listeners]
    await connection.send(request)
    await asyncio.gather(*waiting)
    await asyncio.sleep(0.1)  # the rest of the last event
    lines = [line.strip().partition(": ") for line in listeners[0].received.decode().splitlines()]
    names = [value for name, _, value in lines if name == "event"]
    data = [value for name, _, value in lines if name == "data"]
    return [*zip(names, data, strict=True)]


def _time_fan_out(connection: LoadConnection, request: bytes, listeners: list[EventListener], count: int) -> TimedRound:
    async def run_round() -> float:
        started_at = perf_counter()
        waiting = [each.expect(count) for each in listeners]
        for _ in range(count):
            status = await connection.send(request)
            if status != 200:
                raise AssertionError(f"The server answered {status}: {connection.body[:200]!r}")
        await asyncio.gather(*waiting)
        return perf_counter() - started_at

    return run_round
