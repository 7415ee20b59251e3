"""News: clients hear that tools came or went, or that an output was kept, those of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ToolsListChanged

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from toolwright.catalogue.catalogue import Catalogue
    from toolwright.runtime.outputs import Outputs

Change: TypeAlias = ToolsListChanged | ResourcesListChanged

BUNDLE = 0.05
"""Seconds for which changes are gathered before they are told as one."""


class News:
    """Tells of changes: on the bus to those who listen, and to every session of the older protocol."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._sessions: dict[int, _Session] = {}
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None

    def follow(self, catalogue: Catalogue, outputs: Outputs) -> Callable[[], None]:
        """Tell of their changes, until what is returned is called."""
        loop = asyncio.get_running_loop()

        def told(change: Change) -> Callable[[], None]:
            # Tools may be added from any thread.
            return lambda: None if loop.is_closed() else _on(loop, self._changed, change)

        end = ExitStack()
        end.callback(catalogue.watch(told(ToolsListChanged())))
        end.callback(outputs.watch(told(ResourcesListChanged())))
        return end.close

    def _changed(self, change: Change) -> None:
        self._changes[change] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell(), name="mcp: list changed")

    async def _tell(self) -> None:
        while self._changes:
            await asyncio.sleep(BUNDLE)
            changes, self._changes = self._changes, {}
            for change in changes:
                await self.bus.publish(change)
                for session in self._sessions.values():
                    session.tell(change)

    async def meet(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware that gets to know the sessions there are."""
        if ctx.method == "notifications/initialized":
            connection = ctx.session._connection
            if id(connection) not in self._sessions:
                self._sessions[id(connection)] = _Session(connection)
                connection.exit_stack.push_async_callback(self._part, id(connection))
        return await call_next(ctx)

    async def _part(self, key: int) -> None:
        await self._sessions.pop(key).close()

    async def close(self) -> None:
        """Tell nobody any more."""
        self._changes.clear()
        await _ended(self._telling)


class _Session:
    """One session of the older protocol. What it is too slow to take in is told as one, once it does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None

    def tell(self, change: Change) -> None:
        self._changes[change] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell(), name="mcp: list changed")

    async def _tell(self) -> None:
        while self._changes:
            change = next(iter(self._changes))
            del self._changes[change]
            if isinstance(change, ToolsListChanged):
                await self._connection.send_tool_list_changed()
            else:
                await self._connection.send_resource_list_changed()

    async def close(self) -> None:
        self._changes.clear()
        await _ended(self._telling)


def _on(loop: asyncio.AbstractEventLoop, tell: Callable[[Change], None], change: Change) -> None:
    if asyncio._get_running_loop() is loop:
        tell(change)
    else:
        loop.call_soon_threadsafe(tell, change)


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait({task})
