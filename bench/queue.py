"""Queue: many slow calls at once, through a queue of one hundred."""

from __future__ import annotations

import asyncio
from time import perf_counter

from bench.measure import ratio
from bench.table import Row
from surehand import Queue, Runtime, tool

AT_ONCE = 100


async def nap() -> int:
    """Take ten milliseconds."""
    await asyncio.sleep(0.01)
    return 0


async def queue(*, rounds: int = 5, count: int = 10_000) -> list[Row]:
    """All calls are made at once; the limit is what one would write by hand."""
    async with Runtime(tool(queue="narrow")(nap), queues={"narrow": Queue(concurrent=AT_ONCE)}) as runtime:

        async def ours() -> float:
            began = perf_counter()
            await asyncio.gather(*(runtime.call("nap", "{}") for _ in range(count)))
            return perf_counter() - began

        measured = await ratio(ours, lambda: _by_hand(count), rounds=rounds)
    return [Row(f"{count:,} calls of a 10 ms tool, queue of {AT_ONCE} / gather + Semaphore", measured, 1.25)]


async def _by_hand(count: int) -> float:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one() -> int:
        async with slots:
            return await nap()

    began = perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return perf_counter() - began
