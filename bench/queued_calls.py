"""Benchmark of many slow calls at once through a queue that runs one hundred at a time."""

from __future__ import annotations

import asyncio
from time import perf_counter

from bench.measure import measure_ratio
from bench.table import Row
from surehand import Queue, Runtime, tool

MAX_CONCURRENT_CALLS = 100


async def nap() -> int:
    """Sleep for ten milliseconds."""
    await asyncio.sleep(0.01)
    return 0


async def measure_queue(*, rounds: int = 5, count: int = 10_000) -> list[Row]:
    """Start all calls at once. The limit is `gather` with a semaphore, as written by hand."""
    async with Runtime(tool(queue="narrow")(nap), queues={"narrow": Queue(concurrent=MAX_CONCURRENT_CALLS)}) as runtime:

        async def ours() -> float:
            started_at = perf_counter()
            await asyncio.gather(*(runtime.call("nap", "{}") for _ in range(count)))
            return perf_counter() - started_at

        measured = await measure_ratio(ours, lambda: _time_semaphore(count), rounds=rounds)
    return [
        Row(f"{count:,} calls of a 10 ms tool, queue of {MAX_CONCURRENT_CALLS} / gather + Semaphore", measured, 1.25)
    ]


async def _time_semaphore(count: int) -> float:
    slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def run_one() -> int:
        async with slots:
            return await nap()

    started_at = perf_counter()
    await asyncio.gather(*(run_one() for _ in range(count)))
    return perf_counter() - started_at
