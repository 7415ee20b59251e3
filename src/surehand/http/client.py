"""`HttpClient`, the HTTP client of the web tools and search engines, and its rules for redirects.

Each request is an `httpx2.Request` that goes through the `GuardedTransport`, as those of `GuardedClient` do. There is
no `httpx2.AsyncClient` in between because that logs whole URLs, which may hold secrets, and builds a request from every
redirect, also from one that must be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Self, Unpack

from surehand.core.errors import Denied, InvalidArguments, NotStarted, TimedOut, ToolError
from surehand.core.extras import install_command
from surehand.http.headers import headers_for_another_origin, without_body_headers
from surehand.http.request import HttpRequest, build_request
from surehand.http.response import HttpResponse, IncomingResponse, ResponseHead
from surehand.http.settings import HttpLimits, HttpOptions, HttpSettings
from surehand.http.target import HttpTarget

if TYPE_CHECKING:
    from surehand.http.transport import GuardedTransport

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


class HttpClient:
    """Sends requests, follows redirects, and keeps connections open for later requests; it keeps no cookies."""

    def __init__(self, settings: HttpSettings | None = None, **changes: Unpack[HttpOptions]) -> None:
        self.settings = replace(settings or HttpSettings(), **changes)
        self._transport: GuardedTransport | None = None
        self._is_closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        idempotency_key: str | None = None,
        truncate: bool = False,
        **limits: Unpack[HttpLimits],
    ) -> HttpResponse:
        """Send a request and read the whole response; `truncate` keeps the beginning of one that is too large.

        The idempotency key is sent unless the method is safe, or the headers hold one already.
        """
        async with self.stream(
            method, url, headers=headers, body=body, idempotency_key=idempotency_key, **limits
        ) as incoming:
            return await incoming.read(truncate=truncate)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        idempotency_key: str | None = None,
        **limits: Unpack[HttpLimits],
    ) -> AsyncIterator[IncomingResponse]:
        """Send a request and read the response while it arrives; the timeout covers the block too."""
        async with self.open(build_request(method, url, headers, body, idempotency_key), **limits) as incoming:
            yield incoming

    @asynccontextmanager
    async def open(self, request: HttpRequest, **limits: Unpack[HttpLimits]) -> AsyncIterator[IncomingResponse]:
        """Send a request that was built with `build_request`, like `stream`."""
        if unknown := limits.keys() - HttpLimits.__annotations__.keys():
            raise TypeError(f"One request cannot change {', '.join(sorted(unknown))}: that takes a client of its own.")
        settings = replace(self.settings, **limits) if limits else self.settings
        try:
            async with asyncio.timeout(settings.timeout) as deadline:
                incoming = await self._final_response(request, settings)
                try:
                    yield incoming
                finally:
                    await incoming.aclose()
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimedOut(f"{request.target.host} took longer than {settings.timeout:g} s.") from error

    async def _final_response(self, request: HttpRequest, settings: HttpSettings) -> IncomingResponse:
        """Follow redirects; the guard checks every target like the first."""
        seen = set[tuple[str, str]]()
        for hop in range(settings.max_redirects + 1):
            step = (request.method, request.target.url)
            if step in seen:
                raise ToolError(f"{request.target.host} redirects in a circle.")
            seen.add(step)
            incoming = await self._send(request, settings, is_redirected=hop > 0)
            if not settings.max_redirects:
                return incoming
            try:
                redirected = follow_redirect(request, incoming.head, allow_downgrade=settings.allow_downgrade)
            except BaseException:
                await incoming.aclose()
                raise
            if redirected is None:
                return incoming
            await incoming.aclose()
            request = redirected
        raise ToolError(f"{request.target.host} is more than {settings.max_redirects} redirects away.")

    async def _send(self, request: HttpRequest, settings: HttpSettings, *, is_redirected: bool) -> IncomingResponse:
        try:
            transport = self._open_transport()
            return await transport.open(request.to_httpx2(settings), request.target, max_bytes=settings.max_bytes)
        except ToolError as error:
            if is_redirected:
                error.executed = True  # the request before the redirect has been sent
            raise

    def _open_transport(self) -> GuardedTransport:
        if self._is_closed:
            raise NotStarted("The outgoing client is closed.")
        if self._transport is None:
            try:
                import httpx2  # noqa: F401 - an extra, which the transport needs
            except ImportError:
                raise NotStarted(f"HTTP needs the package httpx2: {install_command('http')}") from None
            from surehand.http.transport import GuardedTransport  # loads httpx2

            self._transport = GuardedTransport(self.settings)
        return self._transport

    async def aclose(self) -> None:
        """Close every connection."""
        self._is_closed = True
        transport = self._transport
        self._transport = None
        if transport is not None:
            await transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def follow_redirect(request: HttpRequest, head: ResponseHead, *, allow_downgrade: bool) -> HttpRequest | None:
    """The request that a redirect asks for; None for any other response. Raises `Denied` for an unsafe redirect."""
    location = head.header("location")
    if head.status not in REDIRECT_STATUSES or not location:
        return None
    here = request.target
    there = _redirect_target(here, location)
    if here.scheme == "https" and there.scheme == "http" and not allow_downgrade:
        raise Denied(f"{here.host} redirects from https to http on {there.host}, which is not followed.")
    moved = replace(request, target=there)
    if _becomes_get(request.method, head.status):
        moved = replace(moved, method="GET", body=None, headers=without_body_headers(moved.headers))
    if there.origin != here.origin:
        if moved.body is not None:  # an approval of the request covered sending this body to one host only
            raise Denied(
                f"{here.host} asks to send the same to {there.host}. Send it there by itself if that is meant."
            )
        moved = replace(moved, headers=headers_for_another_origin(moved.headers))
    return moved


def _becomes_get(method: str, status: int) -> bool:
    """RFC 9110: 303 turns all but HEAD into GET, and clients turn a POST into GET on 301 and 302 as well."""
    return (status == 303 and method not in ("GET", "HEAD")) or (status in (301, 302) and method == "POST")


def _redirect_target(target: HttpTarget, location: str) -> HttpTarget:
    try:
        return target.join(location)
    except InvalidArguments as error:
        raise ToolError(f"{target.host} redirects to something that cannot be followed: {error}") from error
    except Denied as error:
        raise Denied(f"{target.host} redirects elsewhere. {error}") from error
