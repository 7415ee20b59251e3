"""Life: a runtime is served as long as anybody is connected, be it one client or many."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from surehand.gateway.mcp.running import running

if TYPE_CHECKING:
    from mcp.server.subscriptions import ListenHandler

    from surehand.gateway.mcp.news import News
    from surehand.gateway.mcp.served import Served


class Life:
    """The library begins it anew for each connection; what they share begins with the first."""

    def __init__(self, served: Served, news: News, listening: ListenHandler) -> None:
        self._served, self._news, self._listening = served, news, listening
        self._connected, self._begun = 0, False
        self._turn = asyncio.Lock()
        self._end = AsyncExitStack()

    async def __aenter__(self) -> None:
        async with self._turn:
            if not self._begun:
                await self._begin()
            self._begun = True
            self._connected += 1

    async def _begin(self) -> None:
        runtime = self._served.runtime
        async with AsyncExitStack() as end:
            await end.enter_async_context(running(runtime))
            self._served.check()
            self._served.later.resume()
            end.push_async_callback(self._news.close)
            end.callback(self._listening.close)
            end.callback(self._news.follow(runtime.catalogue, runtime.parts.outputs))
            self._end = end.pop_all()

    async def __aexit__(self, *error: object) -> None:
        self._connected -= 1
        async with self._turn:
            if self._begun and not self._connected:
                self._begun = False
                await self._end.aclose()
