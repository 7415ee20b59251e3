"""Shared by the scripts of all peers: check the answer, measure, and print one line of JSON."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, TypeAlias

from bench.agent_limit import agent_limit
from bench.call_limit import add_limit
from bench.measure import TimedRound, measure_ratio, time_calls

Add: TypeAlias = Callable[[], Awaitable[Any]]
"""Calls `add` with 1 and 2 through a library's managed path; the result contains a 3."""
Run: TypeAlias = Add
"""Runs a library's agent, whose scripted model calls `add` once; the result contains a 3."""

LIMIT_CALLS_PER_CALL = 20


def report(distribution: str, path: str, open_path: Callable[[], AbstractAsyncContextManager[Add]]) -> None:
    """Measure the ratio of a library's path to the limit in this process, and print it as JSON."""
    _report(distribution, path, asyncio.run(_measure(open_path, add_limit)))


def report_agent(distribution: str, path: str, open_path: Callable[[], AbstractAsyncContextManager[Run]]) -> None:
    """Measure the ratio of a run of a library's agent to the same loop by hand, and print it as JSON."""
    _report(distribution, path, asyncio.run(_measure(open_path, agent_limit)))


def _report(distribution: str, path: str, measured: float) -> None:
    versions = {"version": version(distribution), "python": platform.python_version(), "pydantic": version("pydantic")}
    print(json.dumps({"path": path, "ratio": measured, **versions}))


async def _measure(
    open_path: Callable[[], AbstractAsyncContextManager[Add]], limit: Callable[..., TimedRound]
) -> float:
    async with open_path() as add:
        if "3" not in str(answer := await add()):
            raise AssertionError(f"add(1, 2) returned {answer!r} instead of 3.")
        # Thirty calls of the limit would end before the caches are warm: run more of them, and divide.
        return (
            await measure_ratio(time_calls(add, count=30), limit(count=30 * LIMIT_CALLS_PER_CALL), rounds=40)
            * LIMIT_CALLS_PER_CALL
        )
