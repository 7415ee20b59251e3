"""MCP calls: a tool of a server, called through a runtime and through the library's own client, which take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

from bench.mcp_servers import PROTOCOLS, ours, served, theirs
from bench.measure import Timed, ratio, repeated
from bench.table import Row
from surehand import Runtime, mcp

Add: TypeAlias = Callable[[], Awaitable[Any]]
ARGUMENTS = {"a": 1, "b": 2}
IN_FLIGHT = 32


async def mcp_calls(*, rounds: int = 61, count: int = 96, web_rounds: int = 31, web_count: int = 64) -> list[Row]:
    """Both ways to a server, in both protocols."""
    return [*await over_stdio(rounds, count), *await over_http(web_rounds, web_count)]


async def over_stdio(rounds: int, count: int) -> list[Row]:
    """A plain server, which takes next to no time itself."""
    from mcp import Client

    rows: list[Row] = []
    for protocol in PROTOCOLS:
        async with Runtime(ours(protocol=protocol)) as runtime, Client(theirs(), mode=protocol) as client:
            calls = partial(runtime.call, "plain__add", ARGUMENTS), partial(client.call_tool, "add", ARGUMENTS)
            rows += await _rows(f"stdio, {protocol}", *calls, rounds, count)
    return rows


async def over_http(rounds: int, count: int) -> list[Row]:
    """The library's own server, in another process."""
    from mcp import Client

    rows: list[Row] = []
    async with served() as url:
        for protocol in PROTOCOLS:
            web = mcp.http(url, namespace="web", protocol=protocol, manifest=False)
            async with Runtime(web) as runtime, Client(url, mode=protocol) as client:
                calls = partial(runtime.call, "web__add", ARGUMENTS), partial(client.call_tool, "add", ARGUMENTS)
                rows += await _rows(f"HTTP, {protocol}", *calls, rounds, count)
    return rows


async def _rows(how: str, add: Add, limit: Add, rounds: int, count: int) -> list[Row]:
    """The library's client checks structured results too; the rest of the pipeline is ours alone."""
    assert (await add()).data == (await limit()).structured_content == {"result": 3}
    one = await ratio(repeated(add, count=count), repeated(limit, count=count), rounds=rounds)
    many = await ratio(in_flight(add, count=count), in_flight(limit, count=count), rounds=rounds)
    return [
        Row(f"call of an MCP tool over {how} / the MCP SDK's own client", one, 1.0),
        Row(f"{IN_FLIGHT} calls in flight of an MCP tool over {how} / the MCP SDK's own client", many, 1.0),
    ]


def in_flight(call: Add, *, count: int) -> Timed:
    """So many calls, of which many are under way at any moment."""
    callers = min(IN_FLIGHT, count)
    caller = repeated(call, count=count // callers)

    async def timed() -> float:
        began = perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return perf_counter() - began

    return timed
