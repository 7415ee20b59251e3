"""Transport: the same guard for libraries that bring their own requests and want a client of `httpx2`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast

import httpcore2
import httpx2

from toolwright.core.errors import Denied, TimedOut, ToolError
from toolwright.outgoing.client import Settings, pool_of
from toolwright.outgoing.connector import Connector
from toolwright.outgoing.decoding import OFFERED
from toolwright.outgoing.failures import told
from toolwright.outgoing.response import Incoming, head_of, release
from toolwright.outgoing.target import target_of


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Judges every request as the outgoing client does, and unpacks answers within the same limits.

    What it refuses is an `httpx2.ConnectError`, as a library expects, whose cause is the `ToolError`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        guard = self._settings.guard()
        self._connector = Connector(guard, resolver=self._settings.resolver, dialer=self._settings.dialer)
        self._pool = pool_of(self._connector, self._settings)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; redirects come here again, one by one."""
        try:
            target = target_of(str(request.url))
            with told(target.host):
                answer = await self._pool.handle_async_request(_request(request))
        except ToolError as error:
            raise _as_httpx2(error, request) from error
        try:
            head = head_of(request.method, target, answer, self._settings.max_header_bytes)
            endless = head.header("content-type").startswith("text/event-stream")  # read event by event, never whole
            most = None if endless else self._settings.max_bytes
            incoming = Incoming(
                head, answer.stream, host=target.host, max_bytes=most, max_ratio=self._settings.max_ratio
            )
        except ToolError as error:
            await release(answer)
            raise _as_httpx2(error, request) from error
        return httpx2.Response(
            answer.status,
            headers=[pair for pair in answer.headers if pair[0].lower() not in _UNPACKED],
            stream=_Body(incoming, answer, request),
            extensions={name: answer.extensions[name] for name in _KEPT & answer.extensions.keys()},
        )

    async def aclose(self) -> None:
        """Close every connection."""
        self._connector.close()
        await self._pool.aclose()


_UNPACKED = frozenset({b"content-encoding", b"content-length"})
"""They describe what came over the wire, and the library is given what was in it."""
_KEPT = frozenset({"http_version", "reason_phrase"})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, incoming: Incoming, answer: httpcore2.Response, request: httpx2.Request) -> None:
        self._incoming, self._answer, self._request = incoming, answer, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._incoming.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ToolError as error:
            raise _as_httpx2(error, self._request, httpx2.ReadError) from error

    async def aclose(self) -> None:
        await release(self._answer)


def guarded(settings: Settings | None = None, **options: Any) -> httpx2.AsyncClient:
    """A client of `httpx2` that reaches what the outgoing client may reach, and keeps no cookies.

    `options` are those of `httpx2.AsyncClient`, but for the transport and what the environment would add.
    """
    settings = settings or Settings()
    hooks = {name: list(given) for name, given in (options.pop("event_hooks", None) or {}).items()}
    if not settings.allow_downgrade:
        hooks["response"] = [_no_downgrade, *hooks.get("response", ())]
    headers = httpx2.Headers({"User-Agent": settings.user_agent})
    headers.update(options.pop("headers", None))
    headers["Accept-Encoding"] = OFFERED
    options.setdefault("timeout", httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout))
    options.setdefault("max_redirects", settings.max_redirects)
    nobodys = CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))
    return httpx2.AsyncClient(
        **options,
        transport=GuardedTransport(settings),
        headers=headers,
        event_hooks=hooks,
        cookies=nobodys,
        trust_env=False,
    )


async def _no_downgrade(response: httpx2.Response) -> None:
    asked = response.request.url
    if not response.has_redirect_location or asked.scheme != "https":
        return
    if asked.join(response.headers["location"]).scheme != "https":
        error = Denied(f"{asked.host} redirects from https to http, which is not followed.")
        raise _as_httpx2(error, response.request) from error


def _request(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        request.method,
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=cast(Any, request.stream),
        extensions={"timeout": request.extensions.get("timeout", {})},  # and none that names another server
    )


def _as_httpx2(
    error: ToolError, request: httpx2.Request, otherwise: type[httpx2.RequestError] = httpx2.ConnectError
) -> httpx2.RequestError:
    kind: type[httpx2.RequestError] = httpx2.ReadTimeout if isinstance(error, TimedOut) else otherwise
    return kind(str(error), request=request)
