"""The same tests with a store on disk: what holds in memory must hold there, only not within one turn of the loop."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import toolwright.testing
import toolwright.testing.clock
from toolwright.runtime.runtime import Runtime


def everywhere() -> None:
    """Give every runtime that asks for no store one in a file, and let tests wait for the disk where they wait."""
    folder, numbers, plain = Path(tempfile.mkdtemp(prefix="toolwright-")), count(), Runtime.__init__
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def remembering(self: Runtime, *sources: Any, store: Any = None, **options: Any) -> None:
        plain(self, *sources, store=store or str(folder / f"{next(numbers)}.db"), **options)

    Runtime.__init__ = remembering  # type: ignore[method-assign]
    toolwright.testing.settle = toolwright.testing.clock.settle = _settle  # type: ignore[attr-defined]


async def _settle(rounds: int = 20) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0.002)
