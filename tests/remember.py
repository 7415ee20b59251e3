"""The same tests with a store on disk: what holds in memory must hold there, only not within one turn of the loop."""

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
from tests.room import ROOM


def everywhere() -> None:
    """Give every runtime that asks for no store one in a file, and let tests wait for the disk where they wait."""
    folder, numbers, plain = Path(tempfile.mkdtemp(prefix="surehand-", dir=ROOM)), count(), Runtime.__init__
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def remembering(self: Runtime, *sources: Any, store: Any = None, **options: Any) -> None:
        plain(self, *sources, store=store or str(folder / f"{next(numbers)}.db"), **options)

    Runtime.__init__ = remembering  # type: ignore[method-assign]
    ThreadedExecutor.write, ThreadedExecutor.read = _counted(ThreadedExecutor.write), _counted(ThreadedExecutor.read)  # type: ignore[method-assign]
    surehand.testing.settle = surehand.testing.manual_clock.settle = _settle  # type: ignore[attr-defined]


_UNDER_WAY: set[object] = set()
"""What stores have been asked to write or read."""


def _counted(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def counted(self: ThreadedExecutor, job: Any) -> Any:
        _UNDER_WAY.add(this := object())
        try:
            return await ask(self, job)
        finally:
            _UNDER_WAY.discard(this)

    return counted


async def _settle(rounds: int = 20) -> None:
    until = monotonic() + 10
    for _ in range(rounds):
        await asyncio.sleep(0.002)
        while _UNDER_WAY and monotonic() < until:  # noqa: ASYNC110 - however busy the disk is
            await asyncio.sleep(0.002)
