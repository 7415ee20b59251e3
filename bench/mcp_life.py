"""MCP connections: what it costs to start with one, to list many tools, to keep one, and to remember its calls."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.mcp_calls import ARGUMENTS, IN_FLIGHT, in_flight
from bench.mcp_servers import PROTOCOLS, ours, theirs
from bench.measure import Timed, ratio
from bench.table import Row
from surehand import Runtime

NOTE = "for information"


async def mcp_life(*, rounds: int = 15, tools: int = 500, connections: int = 8, count: int = 640) -> list[Row]:
    """All for information."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        return [
            await _known(folder, rounds),
            await _many(rounds, tools),
            *await _idle(connections),
            await _durable(Path(folder), rounds, count),
        ]


async def _known(folder: str, rounds: int) -> Row:
    """With a manifest of an earlier time, nothing is started."""
    async with Runtime(ours(manifest=folder)):
        pass
    known, unknown = _entered(lambda: Runtime(ours(manifest=folder))), _entered(lambda: Runtime(ours()))
    measured = await ratio(known, unknown, rounds=rounds)
    return Row("entering a runtime with an MCP server that is known / that has to be asked", measured, note=NOTE)


async def _many(rounds: int, tools: int) -> Row:
    from mcp import Client

    @asynccontextmanager
    async def listed() -> AsyncIterator[None]:
        async with Client(theirs(tools)) as client:
            assert len((await client.list_tools()).tools) == tools
            yield

    measured = await ratio(_entered(lambda: Runtime(ours(tools))), _entered(listed), rounds=rounds)
    what = f"entering a runtime with an MCP server of {tools} tools / the library's own client, and its list"
    return Row(what, measured, note=NOTE)


def _entered(made: Callable[[], AbstractAsyncContextManager[Any]]) -> Timed:
    async def timed() -> float:
        began = perf_counter()
        async with made():
            return perf_counter() - began

    return timed


async def _idle(connections: int) -> list[Row]:
    """Each user has a connection; their processes are not counted, and what is loaded once is not either."""
    from mcp import Client

    async with Runtime(ours(per="user")) as runtime, AsyncExitStack() as stack:

        async def connect(number: int) -> None:
            await runtime.scope(user=f"user {number}").call("plain__add", ARGUMENTS)

        async def enter(_: int) -> None:
            client = await stack.enter_async_context(Client(theirs()))
            await client.call_tool("add", ARGUMENTS)

        mine, other = await _bytes_for(connect, connections), await _bytes_for(enter, connections)
    what = "memory of an idle MCP connection over stdio"
    return [
        Row(what, mine / 1024, unit=" KiB", note=NOTE),
        Row(f"{what} / the library's own client", mine / other, note=NOTE),
    ]


async def _bytes_for(open_one: Callable[[int], Any], connections: int) -> float:
    await open_one(-1)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(connections):
            await open_one(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / connections
    finally:
        tracemalloc.stop()


async def _durable(folder: Path, rounds: int, count: int) -> Row:
    protocol = PROTOCOLS[-1]
    async with AsyncExitStack() as stack:
        durable = Runtime(ours(protocol=protocol), store=str(folder / "calls.db"))
        kept, plain = [await stack.enter_async_context(each) for each in (durable, Runtime(ours(protocol=protocol)))]
        calls, limit = (
            in_flight(lambda runtime=runtime: runtime.call("plain__add", ARGUMENTS), count=count)
            for runtime in (kept, plain)
        )
        measured = await ratio(limit, calls, rounds=rounds)  # the other way round: calls per second
    what = f"durable calls per second of an MCP tool, SQLite with full sync, {IN_FLIGHT} in flight / not durable"
    return Row(what, measured, note=NOTE)
