"""Mounts: lifespans of tools, entered and left by one task that owns them all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

from surehand.core.facets import Lifespan
from surehand.core.tool import Tool

Request: TypeAlias = tuple[Lifespan, asyncio.Future[None]]


class Mounts:
    """Some context managers must be left by the very task that entered them, so one task does both."""

    def __init__(self) -> None:
        self._values: dict[Lifespan, Any] = {}
        self._entering: dict[Lifespan, asyncio.Future[None]] = {}
        self._requests: asyncio.Queue[Request | None] = asyncio.Queue()
        self._owner: asyncio.Task[None] | None = None

    def value_of(self, tool: Tool[..., Any]) -> Any:
        """What a tool's lifespan gave."""
        return self._values.get(tool.life.lifespan) if tool.life.lifespan and self._values else None

    async def mount(self, tool: Tool[..., Any]) -> None:
        """Enter a tool's lifespan, once; tools may share one."""
        lifespan = tool.life.lifespan
        if lifespan is None or lifespan in self._values:
            return
        if lifespan not in self._entering:
            self._entering[lifespan] = asyncio.get_running_loop().create_future()
            self._requests.put_nowait((lifespan, self._entering[lifespan]))
            if self._owner is None or self._owner.done():
                self._owner = asyncio.create_task(self._own(), name="surehand: lifespans")
        await asyncio.shield(self._entering[lifespan])

    async def _own(self) -> None:
        async with AsyncExitStack() as stack:
            while (request := await self._requests.get()) is not None:
                lifespan, done = request
                try:
                    self._values[lifespan] = await stack.enter_async_context(lifespan())
                    done.set_result(None)
                except BaseException as error:
                    self._entering.pop(lifespan, None)
                    if not isinstance(error, Exception):
                        done.cancel()
                        raise
                    done.set_exception(error)

    async def close(self) -> None:
        """Leave them all, last entered first."""
        if self._owner is not None:
            self._requests.put_nowait(None)
            try:
                await self._owner
            finally:
                self._owner = None
                self._values.clear()
                self._entering.clear()
