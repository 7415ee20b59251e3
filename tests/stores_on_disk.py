"""Runs the tests with a store on disk instead of in memory (`--remember`): the same must hold, only not at once."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import surehand.testing
import surehand.testing.manual_clock
from surehand.runtime.runtime import Runtime
from surehand.store.sqlite.executors import ThreadedExecutor
from tests.temp_folders import TEMP_FOLDER_PARENT


def use_stores_on_disk() -> None:
    """Give every runtime without a store one in a file, and make `settle` wait for the disk."""
    folder = Path(tempfile.mkdtemp(prefix="surehand-", dir=TEMP_FOLDER_PARENT))
    numbers = count()
    original_init = Runtime.__init__
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def init_with_store(self: Runtime, *sources: Any, store: Any = None, **options: Any) -> None:
        original_init(self, *sources, store=store or str(folder / f"{next(numbers)}.db"), **options)

    Runtime.__init__ = init_with_store  # type: ignore[method-assign]
    ThreadedExecutor.write = _track_jobs(ThreadedExecutor.write)  # type: ignore[method-assign]
    ThreadedExecutor.read = _track_jobs(ThreadedExecutor.read)  # type: ignore[method-assign]
    surehand.testing.settle = surehand.testing.manual_clock.settle = _settle  # type: ignore[attr-defined]


_RUNNING_JOBS: set[object] = set()
"""Reads and writes that a store has started and not finished."""


def _track_jobs(run_job: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def run_tracked(self: ThreadedExecutor, job: Any) -> Any:
        _RUNNING_JOBS.add(token := object())
        try:
            return await run_job(self, job)
        finally:
            _RUNNING_JOBS.discard(token)

    return run_tracked


async def _settle(rounds: int = 20) -> None:
    deadline = monotonic() + 10
    for _ in range(rounds):
        await asyncio.sleep(0.002)
        while _RUNNING_JOBS and monotonic() < deadline:  # noqa: ASYNC110 - the executor has no event for this
            await asyncio.sleep(0.002)
