"""Benchmark of MCP connections: opening, listing many tools, memory of an idle connection, and durable calls."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.mcp_calls import ARGUMENTS, MAX_IN_FLIGHT, time_concurrent_calls
from bench.mcp_servers import PROTOCOLS, stdio_parameters, stdio_provider
from bench.measure import TimedRound, measure_ratio
from bench.table import Row
from surehand import Runtime

INFORMATION = "for information"


async def measure_mcp_connections(
    *, rounds: int = 15, tools: int = 500, connections: int = 8, count: int = 640
) -> list[Row]:
    """Measure everything about connections; all rows are for information."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        return [
            await _measure_manifest(folder, rounds),
            await _measure_many_tools(rounds, tools),
            *await _measure_idle_memory(connections),
            await _measure_durable_calls(Path(folder), rounds, count),
        ]


async def _measure_manifest(folder: str, rounds: int) -> Row:
    """With a manifest from an earlier run, the runtime does not start the server."""
    async with Runtime(stdio_provider(manifest=folder)):
        pass
    with_manifest = _time_entering(lambda: Runtime(stdio_provider(manifest=folder)))
    without_manifest = _time_entering(lambda: Runtime(stdio_provider()))
    measured = await measure_ratio(with_manifest, without_manifest, rounds=rounds)
    return Row("entering a runtime with an MCP server that has a manifest / that has none", measured, note=INFORMATION)


async def _measure_many_tools(rounds: int, tools: int) -> Row:
    from mcp import Client

    @asynccontextmanager
    async def client_with_tool_list() -> AsyncIterator[None]:
        async with Client(stdio_parameters(tools)) as client:
            assert len((await client.list_tools()).tools) == tools
            yield

    measured = await measure_ratio(
        _time_entering(lambda: Runtime(stdio_provider(tools))), _time_entering(client_with_tool_list), rounds=rounds
    )
    title = f"entering a runtime with an MCP server of {tools} tools / the MCP SDK's own client, and its list"
    return Row(title, measured, note=INFORMATION)


def _time_entering(open_context: Callable[[], AbstractAsyncContextManager[Any]]) -> TimedRound:
    async def run_round() -> float:
        started_at = perf_counter()
        async with open_context():
            return perf_counter() - started_at

    return run_round


async def _measure_idle_memory(connections: int) -> list[Row]:
    """Open a connection per user. The server processes and the modules that are loaded once do not count."""
    from mcp import Client

    async with Runtime(stdio_provider(per="user")) as runtime, AsyncExitStack() as stack:

        async def connect(number: int) -> None:
            await runtime.scope(user=f"user {number}").call("plain__add", ARGUMENTS)

        async def enter(_: int) -> None:
            client = await stack.enter_async_context(Client(stdio_parameters()))
            await client.call_tool("add", ARGUMENTS)

        our_bytes = await _bytes_per_connection(connect, connections)
        sdk_bytes = await _bytes_per_connection(enter, connections)
    title = "memory of an idle MCP connection over stdio"
    return [
        Row(title, our_bytes / 1024, unit=" KiB", note=INFORMATION),
        Row(f"{title} / the MCP SDK's own client", our_bytes / sdk_bytes, note=INFORMATION),
    ]


async def _bytes_per_connection(open_one: Callable[[int], Any], connections: int) -> float:
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


async def _measure_durable_calls(folder: Path, rounds: int, count: int) -> Row:
    protocol = PROTOCOLS[-1]
    async with AsyncExitStack() as stack:
        durable_runtime = Runtime(stdio_provider(protocol=protocol), store=str(folder / "calls.db"))
        durable, plain = [
            await stack.enter_async_context(each)
            for each in (durable_runtime, Runtime(stdio_provider(protocol=protocol)))
        ]
        calls, limit = (
            time_concurrent_calls(lambda runtime=runtime: runtime.call("plain__add", ARGUMENTS), count=count)
            for runtime in (durable, plain)
        )
        measured = await measure_ratio(limit, calls, rounds=rounds)  # swapped, because the row shows calls per second
    title = f"durable calls per second of an MCP tool, SQLite with full sync, {MAX_IN_FLIGHT} in flight / not durable"
    return Row(title, measured, note=INFORMATION)
