"""MCP calls: a tool of a server, called through a runtime and through the library's own client, which take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, TypeAlias

from bench.mcp_servers import PROTOCOLS, Protocol, ours, served, theirs
from bench.measure import Timed, ratio, repeated
from bench.table import Row
from toolwright import Runtime, mcp

Add: TypeAlias = Callable[[], Awaitable[Any]]
ARGUMENTS = {"a": 1, "b": 2}
IN_FLIGHT = 32


async def mcp_calls(*, rounds: int = 61, count: int = 96, web_rounds: int = 31, web_count: int = 64) -> list[Row]:
    """Both ways to a server, in both protocols."""
    rows = [row for protocol in PROTOCOLS for row in await _over_stdio(protocol, rounds, count)]
    async with served() as url:
        for protocol in PROTOCOLS:
            rows += await _over_http(url, protocol, web_rounds, web_count)
    return rows


async def _over_stdio(protocol: Protocol, rounds: int, count: int) -> list[Row]:
    from mcp import Client

    async with Runtime(ours(protocol=protocol)) as runtime, Client(theirs(), mode=protocol) as client:
        add = lambda: runtime.call("plain__add", ARGUMENTS)  # noqa: E731 - beside the other one
        return await _rows(f"stdio, {protocol}", add, lambda: client.call_tool("add", ARGUMENTS), rounds, count)


async def _over_http(url: str, protocol: Protocol, rounds: int, count: int) -> list[Row]:
    from mcp import Client

    web = mcp.http(url, namespace="web", protocol=protocol, manifest=False)
    async with Runtime(web) as runtime, Client(url, mode=protocol) as client:
        add = lambda: runtime.call("web__add", ARGUMENTS)  # noqa: E731 - beside the other one
        return await _rows(f"HTTP, {protocol}", add, lambda: client.call_tool("add", ARGUMENTS), rounds, count)


async def _rows(how: str, add: Add, limit: Add, rounds: int, count: int) -> list[Row]:
    """The library's client checks structured results too; the rest of the pipeline is ours alone."""
    assert (await add()).data == (await limit()).structured_content == {"result": 3}
    one = await ratio(repeated(add, count=count), repeated(limit, count=count), rounds=rounds)
    many = await ratio(in_flight(add, count=count), in_flight(limit, count=count), rounds=rounds)
    return [
        Row(f"call of an MCP tool over {how} / the library's own client", one, 1.1),
        Row(f"{IN_FLIGHT} calls in flight of an MCP tool over {how} / the library's own client", many, 1.1),
    ]


def in_flight(call: Add, *, count: int) -> Timed:
    """So many calls, of which many are under way at any moment."""
    caller = repeated(call, count=max(count // IN_FLIGHT, 1))

    async def timed() -> float:
        began = perf_counter()
        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        return perf_counter() - began

    return timed
