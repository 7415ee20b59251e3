"""Benchmark of calls of an MCP tool through a runtime, compared with the MCP SDK's own client; the two alternate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

from bench.mcp_servers import PROTOCOLS, start_http_server, stdio_parameters, stdio_provider
from bench.measure import TimedRound, measure_ratio, time_calls
from bench.table import Row
from surehand import Runtime, mcp

CallAdd: TypeAlias = Callable[[], Awaitable[Any]]
ARGUMENTS = {"a": 1, "b": 2}
MAX_IN_FLIGHT = 32


async def measure_mcp_calls(
    *, rounds: int = 61, count: int = 96, http_rounds: int = 31, http_count: int = 64
) -> list[Row]:
    """Measure both transports, each with both protocol versions."""
    return [*await measure_stdio_calls(rounds, count), *await measure_http_calls(http_rounds, http_count)]


async def measure_stdio_calls(rounds: int, count: int) -> list[Row]:
    """Measure with a minimal stdio server, whose own time is negligible."""
    from mcp import Client

    rows: list[Row] = []
    for protocol in PROTOCOLS:
        async with (
            Runtime(stdio_provider(protocol=protocol)) as runtime,
            Client(stdio_parameters(), mode=protocol) as client,
        ):
            calls = partial(runtime.call, "plain__add", ARGUMENTS), partial(client.call_tool, "add", ARGUMENTS)
            rows += await _measure_call(f"stdio, {protocol}", *calls, rounds, count)
    return rows


async def measure_http_calls(rounds: int, count: int) -> list[Row]:
    """Measure with the MCP SDK's HTTP server in another process."""
    from mcp import Client

    rows: list[Row] = []
    async with start_http_server() as url:
        for protocol in PROTOCOLS:
            web = mcp.http(url, namespace="web", protocol=protocol, manifest=False)
            async with Runtime(web) as runtime, Client(url, mode=protocol) as client:
                calls = partial(runtime.call, "web__add", ARGUMENTS), partial(client.call_tool, "add", ARGUMENTS)
                rows += await _measure_call(f"HTTP, {protocol}", *calls, rounds, count)
    return rows


async def _measure_call(connection: str, add: CallAdd, limit: CallAdd, rounds: int, count: int) -> list[Row]:
    """Measure one call at a time and many at once. The MCP SDK's client validates structured results too."""
    assert (await add()).data == (await limit()).structured_content == {"result": 3}
    one = await measure_ratio(time_calls(add, count=count), time_calls(limit, count=count), rounds=rounds)
    many = await measure_ratio(
        time_concurrent_calls(add, count=count), time_concurrent_calls(limit, count=count), rounds=rounds
    )
    return [
        Row(f"call of an MCP tool over {connection} / the MCP SDK's own client", one, 1.0),
        Row(f"{MAX_IN_FLIGHT} calls in flight of an MCP tool over {connection} / the MCP SDK's own client", many, 1.0),
    ]


def time_concurrent_calls(call: CallAdd, *, count: int) -> TimedRound:
    """A round of `count` calls, of which `MAX_IN_FLIGHT` run at any moment."""
    callers = min(MAX_IN_FLIGHT, count)
    caller = time_calls(call, count=count // callers)

    async def run_round() -> float:
        started_at = perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return perf_counter() - started_at

    return run_round
