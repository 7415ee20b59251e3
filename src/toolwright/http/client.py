"""The outgoing client: every HTTP request of the package goes through here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from toolwright.core.errors import NotStarted, TimedOut, ToolError
from toolwright.http.connector import Connector
from toolwright.http.failures import told
from toolwright.http.pool import pool_of
from toolwright.http.redirects import following
from toolwright.http.request import Request, request_of
from toolwright.http.response import Head, Incoming, Response, head_of, release
from toolwright.http.settings import Limits, Reach, Settings

if TYPE_CHECKING:
    import httpcore2


class Client:
    """Makes requests, follows redirects by hand, and keeps connections; no cookie is ever kept."""

    def __init__(self, settings: Settings | None = None, **changes: Unpack[Reach]) -> None:
        self.settings = replace(settings or Settings(), **changes)
        self._guard = self.settings.guard()
        self._connector: Connector | None = None
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        idempotency_key: str | None = None,
        cut: bool = False,
        **limits: Unpack[Limits],
    ) -> Response:
        """Make a request and read all of the answer; `cut` keeps the beginning of one that is too large.

        The idempotency key is sent along unless the method changes nothing, or the headers hold one already.
        """
        async with self.stream(
            method, url, headers=headers, body=body, idempotency_key=idempotency_key, **limits
        ) as incoming:
            return await incoming.read(cut=cut)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        idempotency_key: str | None = None,
        **limits: Unpack[Limits],
    ) -> AsyncIterator[Incoming]:
        """Make a request, and read the answer while it arrives; the time limit covers that too."""
        if wrong := limits.keys() - Limits.__annotations__.keys():
            raise TypeError(f"One request cannot change {', '.join(sorted(wrong))}: that takes a client of its own.")
        settings = replace(self.settings, **limits)
        request = request_of(method, url, headers, body, idempotency_key)
        try:
            async with asyncio.timeout(settings.timeout) as deadline:
                async with self._answered(request, settings) as incoming:
                    yield incoming
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimedOut(f"{request.target.host} took longer than {settings.timeout:g} s.") from error

    @asynccontextmanager
    async def _answered(self, request: Request, settings: Settings) -> AsyncIterator[Incoming]:
        """Follow redirects to the answer; every hop is judged like the first."""
        seen = set[tuple[str, str]]()
        for hop in range(settings.max_redirects + 1):
            if (step := (request.method, request.target.url)) in seen:
                raise ToolError(f"{request.target.host} redirects in a circle.")
            seen.add(step)
            async with self._sent(request, settings, hop) as (head, stream):
                moved = following(request, head, downgrade=settings.allow_downgrade) if settings.max_redirects else None
                if moved is None:
                    yield Incoming(head, stream, max_bytes=settings.max_bytes, max_ratio=settings.max_ratio)
                    return
            request = moved
        raise ToolError(f"{request.target.host} is more than {settings.max_redirects} redirects away.")

    @asynccontextmanager
    async def _sent(self, request: Request, settings: Settings, hop: int) -> AsyncIterator[tuple[Head, Any]]:
        target = request.target
        try:
            self._guard.check_host(target.host, target.port)
            pool = self._opened()
            with told(target.host):
                answer = await pool.handle_async_request(request.on_the_wire(settings))
        except ToolError as error:
            if hop:
                error.executed = True  # what came before it has been sent
            raise
        try:
            yield head_of(request.method, target, answer, settings.max_header_bytes), answer.stream
        finally:
            await release(answer)

    def _opened(self) -> httpcore2.AsyncConnectionPool:
        if self._closed:
            raise NotStarted("The outgoing client is closed.")
        if self._pool is None:
            settings = self.settings
            self._connector = Connector(self._guard, resolver=settings.resolver, dialer=settings.dialer)
            self._pool = pool_of(self._connector, settings)
        return self._pool

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        pool, connector, self._pool, self._connector = self._pool, self._connector, None, None
        if connector is not None:
            connector.close()
        if pool is not None:
            await pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
