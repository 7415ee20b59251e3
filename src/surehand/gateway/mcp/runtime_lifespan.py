"""The lifespan of a served runtime: it starts with the first connection of a client and ends with the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.subscriptions import ListenHandler

    from surehand.gateway.mcp.notifications import ChangeNotifications
    from surehand.gateway.mcp.served_runtime import ServedRuntime
    from surehand.runtime.runtime import Runtime


class RuntimeLifespan:
    """An async context that the MCP SDK enters for each connection. All connections share one start of the runtime."""

    def __init__(
        self, served_runtime: ServedRuntime, notifications: ChangeNotifications, listen_handler: ListenHandler
    ) -> None:
        self._served_runtime = served_runtime
        self._notifications = notifications
        self._listen_handler = listen_handler
        self._connection_count = 0
        self._is_started = False
        self._lock = asyncio.Lock()
        self._exit_stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        # Under the lock, so that a second connection waits until the runtime has started.
        async with self._lock:
            if not self._is_started:
                await self._start()
            self._is_started = True
            self._connection_count += 1

    async def _start(self) -> None:
        runtime = self._served_runtime.runtime
        async with AsyncExitStack() as exit_stack:
            await exit_stack.enter_async_context(ensure_running(runtime))
            self._served_runtime.validate_toolset()
            self._served_runtime.deferred_results.restore_tool()
            exit_stack.push_async_callback(self._notifications.close)
            exit_stack.callback(self._listen_handler.close)
            exit_stack.callback(self._notifications.watch_changes(runtime.catalogue, runtime.outputs))
            self._exit_stack = exit_stack.pop_all()

    async def __aexit__(self, *error: object) -> None:
        self._connection_count -= 1
        async with self._lock:
            if self._is_started and not self._connection_count:
                self._is_started = False
                await self._exit_stack.aclose()


@asynccontextmanager
async def ensure_running(runtime: Runtime) -> AsyncIterator[Runtime]:
    """Start the runtime and close it afterwards. A runtime that is already running is left open."""
    if runtime.is_open:
        yield runtime
        return
    async with runtime:
        yield runtime
