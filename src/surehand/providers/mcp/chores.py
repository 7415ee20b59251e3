"""Chores: what is done beside the calls while a server is up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Chores:
    """Tasks by name; each is done once at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin, unless it is being done already."""
        known = self._tasks.get(what)
        if known is not None and not known.done():
            work.close()
            return
        self._tasks[what] = asyncio.get_running_loop().create_task(work, name=f"mcp: {self._name} {what}")

    def cancel(self) -> None:
        """Stop them all."""
        for task in self._tasks.values():
            task.cancel()

    async def ended(self) -> None:
        """Wait until none is left."""
        tasks, self._tasks = list(self._tasks.values()), {}
        if tasks:
            await asyncio.wait(tasks)
