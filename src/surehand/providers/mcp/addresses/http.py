"""HTTP: a server at a URL, reached over streamable HTTP or the older HTTP with SSE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from surehand.core.durations import parse_size
from surehand.core.errors import DefinitionError, ToolError
from surehand.http.guard import DEFAULT_PORTS, PrivateAccess
from surehand.http.connector import connect_with_keepalive
from surehand.http.settings import HttpSettings
from surehand.http.target import HttpTarget, parse_target
from surehand.providers.mcp.addresses.address import (
    DEFAULT_MAX_FRAME_BYTES,
    ConnectionOwner,
    HeadersOrEnv,
    OnConnectionEnd,
    ServerAddress,
)
from surehand.providers.mcp.addresses.labels import namespace_from_url, url_without_secrets
from surehand.providers.mcp.transports.connection_errors import failure_from_error

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport

SIGN_IN_TIMEOUT_SECONDS = 330.0
"""Seconds that a connection has to come up where a person may have to sign in first."""
READ_TIMEOUT_SECONDS = 600.0
"""Seconds between two pieces of an answer; a stream that only waits for news is not bound by it."""
_FALLBACK_STATUSES = frozenset({400, 404, 405, 406, 415})
"""What a server says to the first request if it knows the older way only."""
HttpTransportKind = Literal["streamable", "sse"]


class ConnectionAuth(Protocol):
    """Who we are to a server."""

    def auth_for(self, owner: ConnectionOwner, url: str) -> Any:
        """The `httpx2.Auth` for somebody's connection to the server at a URL."""
        ...


class HttpAddress(ServerAddress):
    """A server at a URL; where it does not know the streamable way, the older one (SSE) is tried.

    Its own host may be reached wherever it is, and what else is reached (as when somebody logs in) is on the public
    internet, unless `settings` say more.

    Args:
        headers: sent with every request; or a function of `Who` that gives them when the connection is opened.
        auth: an object whose `auth_for(who, url)` gives an `httpx2.Auth`.
        settings: what may be reached, and within which limits.
        fallback: whether the older way is tried.
        max_frame: bytes that one message may have; what `settings` say, or 4 MiB.
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
        self.url, self.headers, self.auth = url, headers, auth
        if auth is not None:
            self.connection_timeout_seconds = SIGN_IN_TIMEOUT_SECONDS
        given = settings.max_bytes if max_frame is None and settings is not None else max_frame
        self.max_frame = DEFAULT_MAX_FRAME_BYTES if given is None else int(parse_size(given))
        self.settings = settings_for_target(settings, target, self.max_frame)
        self.label = url_without_secrets(url)
        self.identity = f"http:{self.label}{query_digest(url)}"
        self.namespace = namespace_from_url(url)
        if not sse_fallback:
            self.transport_kinds = self.transport_kinds[:1]

    def create_transports(self, owner: ConnectionOwner, on_end: OnConnectionEnd) -> Sequence[Transport]:
        """Streamable HTTP first, then SSE."""
        from surehand.providers.mcp.transports.sse import SseTransport  # these load the MCP SDK
        from surehand.providers.mcp.transports.streamable_http import StreamableHttpTransport

        kinds: dict[HttpTransportKind, type[SseTransport | StreamableHttpTransport]] = {
            "streamable": StreamableHttpTransport,
            "sse": SseTransport,
        }
        return [kinds[way](self, owner, on_end) for way in self.transport_kinds]

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether a server that said this to the first request may know the other way."""
        return is_fallback_status(error)


class SseAddress(HttpAddress):
    """A server at a URL that knows the older way (SSE) only."""

    transport_kinds = ("sse",)


def is_fallback_status(error: BaseException) -> bool:
    """Whether an error of the first request means that the server may know the other way: 400, 404, 405, 406, 415."""
    return failure_from_error(error).status in _FALLBACK_STATUSES


def parse_server_url(url: Any) -> HttpTarget:
    """Where a URL leads; a developer's mistake is told when it is made."""
    fix = "give it whole, as in 'https://example.com/mcp'."
    if not isinstance(url, str):
        raise DefinitionError(f"{url!r} is no URL.", fix=fix)
    try:
        return parse_target(url)
    except ToolError as error:
        raise DefinitionError(f"{url_without_secrets(url)!r} cannot be reached: {error}", fix=fix) from None


def settings_for_target(settings: HttpSettings | None, target: HttpTarget, max_frame: int) -> HttpSettings:
    """The developer has named this host: it may be reached wherever it is."""
    settings = settings or HttpSettings(timeout=None, read_timeout=READ_TIMEOUT_SECONDS)
    given = settings.allow_private
    private: PrivateAccess = given if given is True else (*(() if given is False else given), target.host)
    hosts = tuple(settings.allow_hosts)
    ports = settings.ports
    if ports is None:
        ports = None if target.port in DEFAULT_PORTS else "any"
    return replace(
        settings,
        allow_private=private,
        allow_hosts=(*hosts, target.host) if hosts else (),
        ports=ports if ports is None or ports == "any" else {*ports, target.port},
        max_bytes=max_frame,
        dialer=settings.dialer or connect_with_keepalive,
    )


def query_digest(url: str) -> str:
    """Two addresses that differ in their query are two servers; what is in it may be a secret."""
    query = urlsplit(url).query
    return f"#{sha256(query.encode()).hexdigest()[:8]}" if query else ""
