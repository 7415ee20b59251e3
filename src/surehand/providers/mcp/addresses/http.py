"""Addresses of servers at a URL, reached over streamable HTTP or over HTTP with SSE, the transport before it.

The WebSocket address uses the same URL and network rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit

from surehand.core.durations import parse_size
from surehand.core.errors import DefinitionError, ToolError
from surehand.http.connector import connect_with_keepalive
from surehand.http.guard import DEFAULT_PORTS, PrivateAccess
from surehand.http.settings import HttpSettings
from surehand.http.target import HttpTarget, parse_target
from surehand.providers.mcp.addresses.address import DEFAULT_MAX_FRAME_BYTES, ServerAddress
from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.connection_owner import ConnectionOwner, HeadersOrEnv
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.labels import namespace_from_url, url_without_secrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport

SIGN_IN_TIMEOUT_SECONDS = 330.0
"""Connection timeout of a server with `auth`: a person may have to sign in first."""
READ_TIMEOUT_SECONDS = 600.0
"""Longest pause within a response. Streams of notifications have no such limit."""
_FALLBACK_STATUSES = frozenset({400, 404, 405, 406, 415})
"""Statuses by which a server that supports only SSE refuses the first request."""
_CALLER_REFUSED_STATUSES = frozenset({401, 403})
"""Statuses that another transport would get too."""
HttpTransportKind = Literal["streamable", "sse"]


class ConnectionAuth(Protocol):
    """Signs requests to a server; `mcp.oauth(...)` and the other sign-ins implement it."""

    def auth_for(self, owner: ConnectionOwner, url: str) -> Any:
        """The `httpx2.Auth` for one owner's connection to the server at a URL."""
        ...


@runtime_checkable
class InteractiveAuth(ConnectionAuth, Protocol):
    """Signs requests with tokens for which each user signs in with a browser."""

    def is_signed_in(self, url: str, user: str | None) -> bool:
        """Whether there are tokens of a user that are valid or can be refreshed."""
        ...

    async def sign_in(self, server: Any, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in to the server at an address; `show_url` gets the URL to open."""
        ...


class HttpAddress(ServerAddress):
    """A server at a URL. If the server refuses streamable HTTP, SSE is tried.

    The URL's own host may be on a private network. Any other host that is contacted, for example to sign in, must be
    on the public internet, unless `settings` allow more.

    Args:
        headers: sent with every request; or a function of the owner, called when a connection is opened.
        auth: an object whose `auth_for(owner, url)` returns an `httpx2.Auth`.
        settings: which hosts may be reached, and within which limits.
        sse_fallback: whether SSE is tried.
        max_frame: largest message in bytes; by default the `max_bytes` of `settings`, or 4 MiB.
    """

    transport_kinds: tuple[HttpTransportKind, ...] = ("streamable", "sse")

    def __init__(
        self,
        url: str,
        *,
        headers: HeadersOrEnv = None,
        auth: ConnectionAuth | None = None,
        settings: HttpSettings | None = None,
        sse_fallback: bool = True,
        max_frame: int | str | None = None,
    ) -> None:
        target = parse_server_url(url)
        self.url = url
        self.headers = headers
        self.auth = auth
        if auth is not None:
            self.connection_timeout_seconds = SIGN_IN_TIMEOUT_SECONDS
        if max_frame is None and settings is not None:
            max_frame = settings.max_bytes
        self.max_frame = DEFAULT_MAX_FRAME_BYTES if max_frame is None else int(parse_size(max_frame))
        self.settings = settings_for_target(settings, target, self.max_frame)
        self.label = url_without_secrets(url)
        self.identity = f"http:{self.label}{query_digest(url)}"
        self.namespace = namespace_from_url(url)
        if not sse_fallback:
            self.transport_kinds = self.transport_kinds[:1]

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[Transport]:
        """Create a streamable HTTP transport, then an SSE transport."""
        # These load the MCP SDK.
        from surehand.providers.mcp.transports.sse import SseTransport
        from surehand.providers.mcp.transports.streamable_http import StreamableHttpTransport

        transports: dict[HttpTransportKind, type[SseTransport | StreamableHttpTransport]] = {
            "streamable": StreamableHttpTransport,
            "sse": SseTransport,
        }
        return [transports[kind](self, owner, on_end, secrets) for kind in self.transport_kinds]

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether the server may support SSE after this error of the first request."""
        return is_fallback_status(error)

    def is_signed_in(self, user: str | None) -> bool | None:
        """Whether a user has signed in; None if no person has to."""
        return self.auth.is_signed_in(self.url, user) if isinstance(self.auth, InteractiveAuth) else None

    async def sign_in(self, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in with the authorization code grant."""
        if not isinstance(self.auth, InteractiveAuth):
            await super().sign_in(user, show_url)
            return
        await self.auth.sign_in(self, user, show_url)


class SseAddress(HttpAddress):
    """A server at a URL that is said to support SSE. Streamable HTTP, its successor, is tried first."""

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether to try SSE: after any refusal but that of the caller, since the developer named SSE."""
        status = failure_from_error(error).status
        return status is not None and status not in _CALLER_REFUSED_STATUSES


def is_fallback_status(error: BaseException) -> bool:
    """Whether an error carries a status by which servers without streamable HTTP refuse it."""
    return failure_from_error(error).status in _FALLBACK_STATUSES


def parse_server_url(url: Any) -> HttpTarget:
    """Parse the URL of a server. A malformed URL is a `DefinitionError`."""
    fix = "give a complete URL, such as 'https://example.com/mcp'."
    if not isinstance(url, str):
        raise DefinitionError(f"{url!r} is not a URL.", fix=fix)
    try:
        return parse_target(url)
    except ToolError as error:
        raise DefinitionError(f"{url_without_secrets(url)!r} cannot be reached: {error}", fix=fix) from None


def settings_for_target(settings: HttpSettings | None, target: HttpTarget, max_frame: int) -> HttpSettings:
    """Settings that also allow the host and port of the URL: the developer wrote them down."""
    settings = settings or HttpSettings(timeout=None, read_timeout=READ_TIMEOUT_SECONDS)
    private: PrivateAccess = settings.allow_private
    if private is not True:
        private = (*(private or ()), target.host)
    hosts = tuple(settings.allow_hosts)
    ports = settings.ports
    if ports is None:
        ports = None if target.port in DEFAULT_PORTS else "any"
    elif ports != "any":
        ports = {*ports, target.port}
    return replace(
        settings,
        allow_private=private,
        allow_hosts=(*hosts, target.host) if hosts else (),  # an empty list allows every host
        ports=ports,
        max_bytes=max_frame,
        dialer=settings.dialer or connect_with_keepalive,
    )


def query_digest(url: str) -> str:
    """A short hash of the query: it tells servers apart, and the query itself may hold a secret."""
    query = urlsplit(url).query
    return f"#{sha256(query.encode()).hexdigest()[:8]}" if query else ""
