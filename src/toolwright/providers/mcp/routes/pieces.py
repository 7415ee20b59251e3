"""Pieces: an answer that comes as a stream of events, whose connection is used again once it has ended.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self, TypeAlias

import httpx2

from toolwright.providers.mcp.routes.bulk import Gathered, bulky

Beside: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Has something done beside all else."""
Heard: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Waited for before anything is handed on; comes back at once as long as somebody reads it."""
REST, MOST = 1.0, 16
"""Seconds, and pieces, in which a stream ends once what was asked for has come; one that does not is broken off."""


class Pieces:
    """The text of a response. It breaks off at an event that has too many values to be read.

    The library closes an answer at the event that it waited for, when the end is still on its way, and with it the
    connection. Here the end is waited for beside all else; unless whoever read was cancelled: then closing is how a
    server is told.
    """

    def __init__(self, response: httpx2.Response, heard: Heard, beside: Beside | None = None) -> None:
        self._response, self._heard, self._beside = response, heard, beside
        self._close = response.aclose
        self._source: AsyncIterator[bytes] | None = None
        self._decoder = getincrementaldecoder(response.encoding or "utf-8")(errors="replace")
        self._gathered = Gathered()
        self._closed = self._over = False
        response.aiter_text = self.read  # type: ignore[method-assign]
        response.aclose = self.aclose  # type: ignore[method-assign]

    def read(self, chunk_size: int | None = None) -> Self:
        """In the place of `aiter_text`."""
        stream: Any = self._response.stream
        self._source = aiter(stream)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._over:
            if text := self._decoder.decode(data := await self._next(), final=not data):
                if self._gathered.too_bulky(text):
                    self._over = True
                    raise httpx2.SSEError(bulky().message)
                await self._heard()
                return text
        raise StopAsyncIteration

    async def _next(self) -> bytes:
        """Nothing, once it is over."""
        assert self._source is not None
        try:
            while not (data := await anext(self._source)):
                pass
            return data
        except StopAsyncIteration:
            self._over = True
            return b""
        except BaseException:
            self._over = True
            raise

    async def aclose(self) -> None:
        """In the place of the response's own."""
        if self._closed:
            return
        self._closed = True
        if self._over or self._beside is None or self._source is None or _is_cancelled():
            await self._end()
        else:
            self._beside(self._rest())

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(REST):
                for _ in range(MOST):
                    if not await self._next():
                        break
        except (TimeoutError, httpx2.HTTPError):
            pass
        finally:
            await self._end()

    async def _end(self) -> None:
        source: Any = self._source
        if hasattr(source, "aclose"):
            await source.aclose()
        await self._close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
