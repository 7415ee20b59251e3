"""Replay: what has come over a connection so far, read once more by those who can read anything.

Imported on first use: `httpcore2` is an extra.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Self, TypeAlias

from httpcore2 import AsyncHTTP11Connection, AsyncNetworkStream, ReadTimeout, Request, Response

from toolwright.http.prompt import Prompt

Done: TypeAlias = Callable[[bool], None]
"""Told whether the connection can be used again."""


class Outcome:
    """What came of a request that was sent already: it is taken once."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]], done: Done | None = None) -> None:
        self._answer, self._done = answer, done
        self._taken = False

    @classmethod
    def begun(cls, stream: Prompt, come: bytes, done: Done) -> Self:
        """An answer of which the beginning has come."""
        return cls(partial(_replayed, stream=stream, come=come, done=done), done)

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """What went wrong."""
        return cls(partial(_raised, error))

    @classmethod
    def late(cls) -> Self:
        """Nothing has come in time."""
        return cls.failed(ReadTimeout())

    def __call__(self, request: Request) -> Awaitable[Response] | None:
        """The answer, the first time."""
        if self._taken:
            return None
        self._taken = True
        return self._answer(request)

    def drop(self) -> None:
        """Nobody will take it any more."""
        if not self._taken:
            self._taken = True
            if self._done is not None:
                self._done(False)


async def _raised(error: Exception, request: Request) -> Response:
    raise error


async def _replayed(request: Request, stream: Prompt, come: bytes, done: Done) -> Response:
    """The answer to a request that was written to a connection already, from its first byte."""
    connection = AsyncHTTP11Connection(origin=request.url.origin, stream=_Replayed(stream, come))
    try:
        answer = await connection.handle_async_request(request)
    except BaseException:
        done(False)
        raise
    body = _Body(answer.stream, connection, done)
    return Response(answer.status, headers=answer.headers, content=body, extensions=answer.extensions)


class _Replayed(AsyncNetworkStream):
    """A connection to which nothing is written any more, and of which the beginning has been read before."""

    def __init__(self, stream: Prompt, come: bytes) -> None:
        self._stream, self._come = stream, come

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._come:
            return await self._stream.read(max_bytes, timeout)
        piece, self._come = self._come[:max_bytes], self._come[max_bytes:]
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """It has been sent."""

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        raise NotImplementedError  # it was done before anything was sent

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Body:
    """The rest of the answer; when it is closed, so is the connection, unless it is free again."""

    def __init__(self, stream: Any, connection: AsyncHTTP11Connection, done: Done) -> None:
        self._stream, self._connection, self._done = stream, connection, done

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._done(self._connection.is_idle())
