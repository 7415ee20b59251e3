"""Background tasks of a session, such as its health check and its notification stream. They end with the session."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class ConnectionTasks:
    """Tasks by name. Of each name at most one runs at a time."""

    def __init__(self, server_name: str) -> None:
        self._server_name = server_name
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, unless one of this name is running."""
        running = self._tasks.get(name)
        if running is not None and not running.done():
            work.close()
            return
        self._tasks[name] = asyncio.get_running_loop().create_task(work, name=f"mcp: {self._server_name} {name}")

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks.values():
            task.cancel()

    async def wait_until_done(self) -> None:
        """Wait until all tasks have ended."""
        tasks, self._tasks = list(self._tasks.values()), {}
        if tasks:
            await asyncio.wait(tasks)
