"""Measuring: two things turn about, and the median of their paired ratios. Machines drift; the ratio does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

Timed: TypeAlias = Callable[[], Awaitable[float]]
"""One round of something; its seconds."""


async def ratio(ours: Timed, limit: Timed, *, rounds: int) -> float:
    """How many times as long ours takes."""
    await limit()
    await ours()
    return median([await _pair(ours, limit, ours_first=bool(number % 2)) for number in range(rounds)])


async def _pair(ours: Timed, limit: Timed, *, ours_first: bool) -> float:
    """Neither is always the one that finds the caches cold."""
    if ours_first:
        took = await ours()
        return took / await limit()
    least = await limit()
    return await ours() / least


def repeated(call: Callable[..., Awaitable[Any]], *arguments: Any, count: int) -> Timed:
    """The same awaited call, so many times."""

    async def timed() -> float:
        began = perf_counter()
        for _ in range(count):
            await call(*arguments)
        return perf_counter() - began

    return timed


def once(work: Callable[[], Any]) -> Timed:
    """Work that awaits nothing. What it gives is let go of only after the clock has stopped."""

    async def timed() -> float:
        began = perf_counter()
        kept = work()
        took = perf_counter() - began
        del kept
        return took

    return timed
