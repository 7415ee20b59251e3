"""Lifespans of tools: async context managers that are entered with the runtime and exited with it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

from surehand.core.facets import Lifespan
from surehand.core.tool import Tool

LifespanRequest: TypeAlias = tuple[Lifespan, asyncio.Future[None]]


class Lifespans:
    """Enters and exits all lifespans in one task.

    Cancel scopes and task groups must be exited by the task that entered them.
    """

    def __init__(self) -> None:
        self._values_by_lifespan: dict[Lifespan, Any] = {}
        self._entered_futures: dict[Lifespan, asyncio.Future[None]] = {}
        self._requests: asyncio.Queue[LifespanRequest | None] = asyncio.Queue()
        self._owner_task: asyncio.Task[None] | None = None

    def value_of(self, tool: Tool[..., Any]) -> Any:
        """The value that a tool's lifespan yielded."""
        lifespan = tool.lifecycle.lifespan
        return self._values_by_lifespan.get(lifespan) if lifespan and self._values_by_lifespan else None

    async def enter(self, tool: Tool[..., Any]) -> None:
        """Enter a tool's lifespan unless it is entered already; several tools may share one."""
        lifespan = tool.lifecycle.lifespan
        if lifespan is None or lifespan in self._values_by_lifespan:
            return
        if lifespan not in self._entered_futures:
            self._entered_futures[lifespan] = asyncio.get_running_loop().create_future()
            self._requests.put_nowait((lifespan, self._entered_futures[lifespan]))
            if self._owner_task is None or self._owner_task.done():
                self._owner_task = asyncio.create_task(self._run_owner(), name="surehand: lifespans")
        await asyncio.shield(self._entered_futures[lifespan])

    async def _run_owner(self) -> None:
        """Enter the requested lifespans, and exit all of them at the end."""
        async with AsyncExitStack() as stack:
            while (request := await self._requests.get()) is not None:
                lifespan, done = request
                try:
                    self._values_by_lifespan[lifespan] = await stack.enter_async_context(lifespan())
                    done.set_result(None)
                except BaseException as error:
                    self._entered_futures.pop(lifespan, None)
                    if not isinstance(error, Exception):
                        done.cancel()
                        raise
                    done.set_exception(error)

    async def close(self) -> None:
        """Exit all lifespans, the last entered first."""
        if self._owner_task is not None:
            self._requests.put_nowait(None)
            try:
                await self._owner_task
            finally:
                self._owner_task = None
                self._values_by_lifespan.clear()
                self._entered_futures.clear()
