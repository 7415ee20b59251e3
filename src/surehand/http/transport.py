"""`GuardedTransport`, through which every HTTP request leaves, and `GuardedClient`, an `httpx2.AsyncClient` over it.

`client.py` sends the requests of the web tools through the transport; the MCP SDK and OAuth send theirs through
`GuardedClient`. The connector checks every address, bodies are unpacked within limits, and errors are translated.
Imported on first use: `httpx2` is an extra and takes a while to load.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache, partial
from http.cookiejar import CookieJar
from typing import Any, cast

import httpcore2
import httpx2
from httpcore2 import AsyncConnectionPool, AsyncNetworkStream, default_ssl_context

from surehand.core.errors import DefinitionError, Denied, TimedOut, ToolError
from surehand.http.connector import Connector
from surehand.http.decoding import ACCEPT_ENCODING
from surehand.http.errors import http_errors_as_tool_errors
from surehand.http.head_limit import head_limit
from surehand.http.headers import headers_for_another_origin
from surehand.http.response import IncomingResponse, build_response_head
from surehand.http.settings import HttpSettings
from surehand.http.surplus_bytes import SurplusDetectingStream
from surehand.http.target import HttpTarget, parse_target

MAX_IDLE_CONNECTIONS = 16
MAX_IDLE_SECONDS = 3.0
"""An idle connection is not used after that: many servers close theirs after five seconds, and a request that is sent
at the same moment would be lost."""
_EVENT_STREAM = "text/event-stream"
_WIRE_HEADERS = frozenset({b"content-encoding", b"content-length"})
"""Headers that describe the body as it was sent, before it was unpacked."""
_KEPT_EXTENSIONS = frozenset({"http_version", "reason_phrase"})
_BYPASSING_OPTIONS = frozenset(
    {"transport", "mounts", "proxy", "cookies", "trust_env", "verify", "cert", "http1", "http2", "limits"}
)
_REQUIRED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects only to permitted addresses, and unpacks responses within the limits of `HttpSettings`."""

    def __init__(self, settings: HttpSettings | None = None) -> None:
        self._settings = settings or HttpSettings()
        self._connector = PoolConnector(
            self._settings.build_guard(), resolver=self._settings.resolver, dialer=self._settings.dialer
        )
        self._pool = build_connection_pool(self._connector, self._settings)
        self._last_url = ""
        self._last_target: HttpTarget | None = None
        """The parsed form of `_last_url`: an MCP connection sends all its requests to one URL."""

    async def open(
        self, request: httpx2.Request, target: HttpTarget, *, max_bytes: int | None, allow_endless_events: bool = False
    ) -> IncomingResponse:
        """Send one request, follow no redirect, and return once the head of the response has arrived.

        Raises `ToolError`, and no error of `httpx2`. The caller closes the `IncomingResponse`.

        Args:
            target: the parsed URL of the request.
            allow_endless_events: whether a stream of server-sent events may be larger than `max_bytes`.
        """
        with http_errors_as_tool_errors(target.host), head_limit(target.host, self._settings.max_header_bytes):
            response = await self._pool.handle_async_request(_httpcore2_request(request, target))
        try:
            head = build_response_head(request.method, target, response, self._settings.max_header_bytes)
            if allow_endless_events and head.ok and head.header("content-type").startswith(_EVENT_STREAM):
                max_bytes = None
            return IncomingResponse(head, response, max_bytes=max_bytes, max_ratio=self._settings.max_ratio)
        except ToolError:
            await cast(Any, response.stream).aclose()
            raise

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request for an `httpx2.AsyncClient`, which calls this again for each redirect.

        A refusal or failure is an `httpx2.RequestError`, as `httpx2` expects, and its cause is the `ToolError`.
        """
        try:
            target = self._parse_target(str(request.url))
            is_for_events = request.method != "DELETE" and _EVENT_STREAM in request.headers.get("accept", "")
            incoming = await self.open(
                request, target, max_bytes=self._settings.max_bytes, allow_endless_events=is_for_events
            )
        except ToolError as error:
            raise _as_httpx2_error(error, request) from error
        response = incoming.response
        return httpx2.Response(
            response.status,
            headers=[pair for pair in response.headers if pair[0].lower() not in _WIRE_HEADERS],
            stream=_UnpackedBody(incoming, request),
            extensions={name: response.extensions[name] for name in _KEPT_EXTENSIONS & response.extensions.keys()},
        )

    def _parse_target(self, url: str) -> HttpTarget:
        if self._last_target is None or url != self._last_url:
            self._last_target = parse_target(url)
            self._last_url = url
        return self._last_target

    async def aclose(self) -> None:
        """Close every connection."""
        self._connector.close()
        await self._pool.aclose()


class _UnpackedBody(httpx2.AsyncByteStream):
    """The unpacked body of a response, with errors of `httpx2`."""

    def __init__(self, incoming: IncomingResponse, request: httpx2.Request) -> None:
        self._incoming = incoming
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._incoming.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ToolError as error:
            raise _as_httpx2_error(error, self._request, httpx2.ReadError) from error

    async def aclose(self) -> None:
        await self._incoming.aclose()


class _NoCookies(CookieJar):
    """Takes no cookie. A policy that refuses all of them would still have each response searched for them."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        pass


class GuardedClient(httpx2.AsyncClient):
    """An `httpx2.AsyncClient` that sends through a `GuardedTransport` and keeps no cookies.

    For code that wants an `httpx2` client: the MCP SDK and OAuth. Redirects are followed by `httpx2` and checked by a
    response hook.

    Args:
        options: those of `httpx2.AsyncClient`, except the ones that would bypass the guard.
    """

    def __init__(self, settings: HttpSettings | None = None, **options: Any) -> None:
        settings = settings or HttpSettings()
        if forbidden := _BYPASSING_OPTIONS & options.keys():
            raise DefinitionError(
                f"{', '.join(sorted(forbidden))} would bypass the address guard.", fix="set it in `HttpSettings`."
            )
        hooks = {name: list(callbacks) for name, callbacks in (options.pop("event_hooks", None) or {}).items()}
        hooks["response"] = [partial(_check_redirect, settings), *hooks.get("response", ())]
        headers = httpx2.Headers({"User-Agent": settings.user_agent})
        headers.update(options.pop("headers", None))
        headers["Accept-Encoding"] = ACCEPT_ENCODING
        options.setdefault("timeout", httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout))
        options.setdefault("max_redirects", settings.max_redirects)
        super().__init__(
            **options,
            transport=GuardedTransport(settings),
            cookies=_NoCookies(),
            trust_env=False,
            headers=headers,
            event_hooks=hooks,
        )


async def _check_redirect(settings: HttpSettings, response: httpx2.Response) -> None:
    """Refuse an https to http redirect, and remove headers that must not travel to another origin."""
    if not response.has_redirect_location:
        return
    here = response.request.url
    there = here.join(response.headers["location"])
    if here.scheme == "https" and there.scheme != "https" and not settings.allow_downgrade:
        error = Denied(f"{here.host} redirects from https to http, which is not followed.")
        raise _as_httpx2_error(error, response.request) from error
    if there.origin != here.origin:
        headers = response.request.headers
        harmless = {name for name, _ in headers_for_another_origin(tuple(headers.items()))}
        for name in headers.keys() - harmless - _REQUIRED_HEADERS:
            del headers[name]


def _httpcore2_request(request: httpx2.Request, target: HttpTarget) -> httpcore2.Request:
    """The request for the pool; it goes to the target that was parsed by us, however `httpx2` reads the same URL."""
    return httpcore2.Request(
        request.method,
        httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
        headers=request.headers.raw,
        content=cast(Any, request.stream),
        # Other extensions could name another server for the TLS handshake, or another request target.
        extensions={"timeout": request.extensions.get("timeout", {})},
    )


def _as_httpx2_error(
    error: ToolError, request: httpx2.Request, default_type: type[httpx2.RequestError] = httpx2.ConnectError
) -> httpx2.RequestError:
    kind: type[httpx2.RequestError] = httpx2.ReadTimeout if isinstance(error, TimedOut) else default_type
    return kind(str(error), request=request)


class PoolConnector(Connector):
    """A connector whose connections are not reused after a server has sent more than its response."""

    async def connect_tcp(self, *args: Any, **options: Any) -> AsyncNetworkStream:
        """Connect as `Connector` does; `httpcore2` calls this for each new connection."""
        return SurplusDetectingStream(await super().connect_tcp(*args, **options))


def build_connection_pool(connector: PoolConnector, settings: HttpSettings) -> AsyncConnectionPool:
    """Create a pool for HTTP/1.1 without proxies and socket files."""
    return AsyncConnectionPool(
        ssl_context=settings.verify or _system_certificates(),
        network_backend=cast(Any, connector),  # has all methods of a network backend, but not its base class
        max_connections=settings.max_connections,
        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
        keepalive_expiry=MAX_IDLE_SECONDS,
    )


@cache
def _system_certificates() -> ssl.SSLContext:
    """Loaded once: reading them takes a while."""
    return default_ssl_context()
