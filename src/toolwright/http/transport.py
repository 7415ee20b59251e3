"""Transport: the same guard for libraries that bring their own requests and want a client of `httpx2`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeAlias, cast

import httpcore2
import httpx2

from toolwright.core.errors import DefinitionError, Denied, TimedOut, ToolError
from toolwright.http.connector import Connector
from toolwright.http.decoding import OFFERED
from toolwright.http.failures import told
from toolwright.http.headers import for_another_origin
from toolwright.http.pool import pool_of, trust_of
from toolwright.http.response import Incoming, head_of, release
from toolwright.http.settings import Settings
from toolwright.http.target import target_of

ANSWERED = "answered"
"""The extension of a request that was sent already: an `Answered`, from which its answer is taken."""
Answered: TypeAlias = Callable[[httpcore2.Request], Awaitable[httpcore2.Response] | None]
"""What comes of a request that was sent already; None once it was taken."""


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
                answer = await self._answer(request)
        except ToolError as error:
            raise _as_httpx2(error, request) from error
        try:
            head = head_of(request.method, target, answer, self._settings.max_header_bytes)
            endless = head.header("content-type").startswith("text/event-stream")  # read event by event, never whole
            most = None if endless else self._settings.max_bytes
            incoming = Incoming(head, answer.stream, max_bytes=most, max_ratio=self._settings.max_ratio)
        except ToolError as error:
            await release(answer)
            raise _as_httpx2(error, request) from error
        return httpx2.Response(
            answer.status,
            headers=[pair for pair in answer.headers if pair[0].lower() not in _UNPACKED],
            stream=_Body(incoming, answer, request),
            extensions={name: answer.extensions[name] for name in _KEPT & answer.extensions.keys()},
        )

    async def _answer(self, request: httpx2.Request) -> httpcore2.Response:
        asked = _request(request)
        answered: Answered | None = request.extensions.get(ANSWERED)
        if answered is not None and (answer := answered(asked)) is not None:
            return await answer
        return await self._pool.handle_async_request(asked)

    async def dial(self, url: httpx2.URL, timeout: float | None) -> httpcore2.AsyncNetworkStream:
        """A connection of one's own to where a URL leads: judged as any other, and in secret where the URL says so."""
        target, host = target_of(str(url)), url.raw_host.decode("ascii")
        stream = await self._connector.connect_tcp(host, target.port, timeout)
        if target.scheme == "http":
            return stream
        trust = trust_of(self._settings)
        trust.set_alpn_protocols(["http/1.1"])
        return await stream.start_tls(trust, host, timeout)

    async def aclose(self) -> None:
        """Close every connection."""
        self._connector.close()
        await self._pool.aclose()


_UNPACKED = frozenset({b"content-encoding", b"content-length"})
"""They describe what came over the wire, and the library is given what was in it."""
_KEPT = frozenset({"http_version", "reason_phrase"})
_BYPASSING_OPTIONS = frozenset(
    {"transport", "mounts", "proxy", "cookies", "trust_env", "verify", "cert", "http1", "http2", "limits"}
)
_NEEDED = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, incoming: Incoming, answer: httpcore2.Response, request: httpx2.Request) -> None:
        self._incoming, self._answer, self._request = incoming, answer, request
        self._released = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._incoming.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ToolError as error:
            raise _as_httpx2(error, self._request, httpx2.ReadError) from error

    async def aclose(self) -> None:
        if not self._released:  # a second time, the connection may be somebody else's
            self._released = True
            await release(self._answer)


class GuardedClient(httpx2.AsyncClient):
    """An `httpx2.AsyncClient` that sends through a `GuardedTransport` and keeps no cookies.

    For code that wants an `httpx2` client: the MCP SDK and OAuth. Redirects are followed by `httpx2` and checked by a
    response hook.

    Args:
        options: those of `httpx2.AsyncClient`, except the ones that would bypass the guard.
    """

    def __init__(self, settings: Settings | None = None, **options: Any) -> None:
        settings = settings or Settings()
        if forbidden := _BYPASSING_OPTIONS & options.keys():
            raise DefinitionError(
                f"{', '.join(sorted(forbidden))} would bypass the address guard.", fix="set it in `Settings`."
            )
        hooks = {name: list(given) for name, given in (options.pop("event_hooks", None) or {}).items()}
        hooks["response"] = [partial(_check_redirect, settings), *hooks.get("response", ())]
        headers = httpx2.Headers({"User-Agent": settings.user_agent})
        headers.update(options.pop("headers", None))
        headers["Accept-Encoding"] = OFFERED
        options.setdefault("timeout", httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout))
        options.setdefault("max_redirects", settings.max_redirects)
        super().__init__(
            **options,
            transport=GuardedTransport(settings),
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=())),  # refuses every cookie
            trust_env=False,
            headers=headers,
            event_hooks=hooks,
        )


def transport_of(client: httpx2.AsyncClient) -> GuardedTransport:
    """What a client that was made here sends its requests through."""
    return cast(GuardedTransport, client._transport)


async def _check_redirect(settings: Settings, response: httpx2.Response) -> None:
    """Refuse an https to http redirect, and remove headers that must not travel to another origin."""
    if not response.has_redirect_location:
        return
    asked = response.request.url
    there = asked.join(response.headers["location"])
    if asked.scheme == "https" and there.scheme != "https" and not settings.allow_downgrade:
        error = Denied(f"{asked.host} redirects from https to http, which is not followed.")
        raise _as_httpx2(error, response.request) from error
    if there.origin != asked.origin:
        headers = response.request.headers
        for name in headers.keys() - {name for name, _ in for_another_origin(tuple(headers.items()))} - _NEEDED:
            del headers[name]


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
