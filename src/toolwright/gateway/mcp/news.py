"""News: clients hear that tools came or went, or that an output was kept, those of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ServerEvent, ToolsListChanged

from toolwright.gateway.mcp.caller import user_of
from toolwright.gateway.mcp.ended import ended

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from toolwright.catalogue.catalogue import Catalogue
    from toolwright.runtime.outputs import Outputs


@dataclass(frozen=True)
class OutputKept(ResourcesListChanged):
    """An output more, on the list of one user."""

    user: str | None


Change: TypeAlias = ToolsListChanged | OutputKept

BUNDLE = 0.05
"""Seconds for which changes are gathered before they are told as one."""

_listener: ContextVar[str | None] = ContextVar("listener", default=None)
"""The user whose stream is about to begin: the library does not tell the bus who listens."""


def _concerns(user: str | None, event: ServerEvent) -> bool:
    """Whether a change is on a list that a user sees."""
    return not isinstance(event, OutputKept) or event.user == user


class Bus(InMemorySubscriptionBus):
    """The library's, on which each listener hears of what is theirs."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Begin to tell a listener, until what is returned is called."""
        user = _listener.get()
        return super().subscribe(lambda event: listener(event) if _concerns(user, event) else None)


class News:
    """Tells of changes: on the bus to those who listen, and to sessions of the older protocol."""

    def __init__(self, user: str | None = None) -> None:
        self._user, self.bus = user, Bus()
        self._sessions: dict[int, _Session] = {}
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None

    def follow(self, catalogue: Catalogue, outputs: Outputs) -> Callable[[], None]:
        """Tell of their changes, until what is returned is called."""
        loop = asyncio.get_running_loop()

        def tell(change: Change) -> None:
            if not loop.is_closed():  # tools may be added from any thread
                _on(loop, self._changed, change)

        end = ExitStack()
        end.callback(catalogue.watch(lambda: tell(ToolsListChanged())))
        end.callback(outputs.watch(lambda user: tell(OutputKept(user))))
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
        """A middleware that gets to know who may be told."""
        if ctx.method == "notifications/initialized":
            connection = ctx.session._connection
            if id(connection) not in self._sessions:
                self._sessions[id(connection)] = _Session(connection, user_of(ctx) or self._user)
                connection.exit_stack.push_async_callback(self._part, id(connection))
        elif ctx.method == "subscriptions/listen":
            _listener.set(user_of(ctx) or self._user)
        return await call_next(ctx)

    async def _part(self, key: int) -> None:
        await self._sessions.pop(key).close()

    async def close(self) -> None:
        """Tell nobody any more."""
        self._changes.clear()
        await ended(self._telling)


class _Session:
    """One session of the older protocol. What it is too slow to take in is told as one, once it does."""

    def __init__(self, connection: Connection, user: str | None) -> None:
        self._connection, self._user = connection, user
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None

    def tell(self, change: Change) -> None:
        if not _concerns(self._user, change):
            return
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
        await ended(self._telling)


def _on(loop: asyncio.AbstractEventLoop, tell: Callable[[Change], None], change: Change) -> None:
    if asyncio._get_running_loop() is loop:
        tell(change)
    else:
        loop.call_soon_threadsafe(tell, change)
