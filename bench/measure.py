"""Timing for all benchmarks: two things alternate, and the result is the median of their paired ratios.

The speed of a machine drifts during a run. Both sides of a pair see the same drift, so the ratio hardly depends on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

TimedRound: TypeAlias = Callable[[], Awaitable[float]]
"""Runs one round and returns its duration in seconds."""


async def measure_ratio(ours: TimedRound, limit: TimedRound, *, rounds: int) -> float:
    """The median of `ours / limit` over the rounds, after one round of each to warm up."""
    await limit()
    await ours()
    return median([await _pair(ours, limit, ours_first=bool(number % 2)) for number in range(rounds)])


async def _pair(ours: TimedRound, limit: TimedRound, *, ours_first: bool) -> float:
    """Alternate the order, so that neither side always runs with cold caches."""
    if ours_first:
        our_seconds = await ours()
        return our_seconds / await limit()
    limit_seconds = await limit()
    return await ours() / limit_seconds


def time_calls(call: Callable[..., Awaitable[Any]], *arguments: Any, count: int) -> TimedRound:
    """A round of `count` calls, one after the other."""

    async def run_round() -> float:
        started_at = perf_counter()
        for _ in range(count):
            await call(*arguments)
        return perf_counter() - started_at

    return run_round


def time_function(work: Callable[[], Any]) -> TimedRound:
    """A round of one synchronous function call. Its result is freed after the clock has stopped."""

    async def run_round() -> float:
        started_at = perf_counter()
        result = work()
        seconds = perf_counter() - started_at
        del result
        return seconds

    return run_round
