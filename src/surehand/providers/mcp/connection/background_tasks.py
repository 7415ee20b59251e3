"""Chores: what is done beside the calls while a server is up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class BackgroundTasks:
    """Tasks by name; each is done once at a time."""

    def __init__(self, server_name: str) -> None:
        self._server_name = server_name
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin, unless it is being done already."""
        known = self._tasks.get(name)
        if known is not None and not known.done():
            work.close()
            return
        self._tasks[name] = asyncio.get_running_loop().create_task(work, name=f"mcp: {self._server_name} {name}")

    def cancel(self) -> None:
        """Stop them all."""
        for task in self._tasks.values():
            task.cancel()

    async def wait_until_done(self) -> None:
        """Wait until none is left."""
        tasks, self._tasks = list(self._tasks.values()), {}
        if tasks:
            await asyncio.wait(tasks)
