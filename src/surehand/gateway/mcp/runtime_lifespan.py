"""Life: a runtime is served as long as anybody is connected, be it one client or many."""

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


@asynccontextmanager
async def ensure_running(runtime: Runtime) -> AsyncIterator[Runtime]:
    """Start a runtime that does not run, and close it again; one that runs is left as it is."""
    if runtime.services.is_open:
        yield runtime
        return
    async with runtime:
        yield runtime


class RuntimeLifespan:
    """The library begins it anew for each connection; what they share begins with the first."""

    def __init__(
        self, served_runtime: ServedRuntime, notifications: ChangeNotifications, listen_handler: ListenHandler
    ) -> None:
        self._served_runtime, self._notifications, self._listen_handler = served_runtime, notifications, listen_handler
        self._connection_count, self._is_started = 0, False
        self._lock = asyncio.Lock()
        self._exit_stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        async with self._lock:
            if not self._is_started:
                await self._start()
            self._is_started = True
            self._connection_count += 1

    async def _start(self) -> None:
        runtime = self._served_runtime.runtime
        async with AsyncExitStack() as end:
            await end.enter_async_context(ensure_running(runtime))
            self._served_runtime.validate_toolset()
            self._served_runtime.deferred_results.restore_tool()
            end.push_async_callback(self._notifications.close)
            end.callback(self._listen_handler.close)
            end.callback(self._notifications.watch_changes(runtime.catalogue, runtime.services.outputs))
            self._exit_stack = end.pop_all()

    async def __aexit__(self, *error: object) -> None:
        self._connection_count -= 1
        async with self._lock:
            if self._is_started and not self._connection_count:
                self._is_started = False
                await self._exit_stack.aclose()
