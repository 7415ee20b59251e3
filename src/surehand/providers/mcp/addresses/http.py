"""HTTP: a server at a URL, reached over streamable HTTP or the older HTTP with SSE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from surehand.core.durations import size
from surehand.core.errors import DefinitionError, ToolError
from surehand.http.guard import PORTS, Private
from surehand.http.keepalive import kept_alive
from surehand.http.settings import Settings
from surehand.http.target import Target, target_of
from surehand.providers.mcp.addresses.address import MAX_FRAME, Ended, ServerAddress, Texts, Who
from surehand.providers.mcp.addresses.label import namespace_of_url, plain_url
from surehand.providers.mcp.transports.connection_errors import failure_of

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport

SIGNING_IN = 330.0
"""Seconds that a connection has to come up where a person may have to sign in first."""
READ_TIMEOUT = 600.0
"""Seconds between two pieces of an answer; a stream that only waits for news is not bound by it."""
_OTHER_WAY = frozenset({400, 404, 405, 406, 415})
"""What a server says to the first request if it knows the older way only."""
Way = Literal["streamable", "sse"]


class Auth(Protocol):
    """Who we are to a server."""

    def auth_for(self, who: Who, url: str) -> Any:
        """The `httpx2.Auth` for somebody's connection to the server at a URL."""
        ...


class Http(ServerAddress):
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

    ways: tuple[Way, ...] = ("streamable", "sse")

    def __init__(
        self,
        url: str,
        *,
        headers: Texts = None,
        auth: Auth | None = None,
        settings: Settings | None = None,
        fallback: bool = True,
        max_frame: int | str | None = None,
    ) -> None:
        target = checked(url)
        self.url, self.headers, self.auth = url, headers, auth
        if auth is not None:
            self.connecting = SIGNING_IN
        given = settings.max_bytes if max_frame is None and settings is not None else max_frame
        self.max_frame = MAX_FRAME if given is None else int(size(given))
        self.settings = reaching(settings, target, self.max_frame)
        self.label = plain_url(url)
        self.identity = f"http:{self.label}{query_mark(url)}"
        self.namespace = namespace_of_url(url)
        if not fallback:
            self.ways = self.ways[:1]

    def transports(self, who: Who, ended: Ended) -> Sequence[Transport]:
        """Streamable HTTP first, then SSE."""
        from surehand.providers.mcp.transports.sse import SseTransport  # these load the MCP SDK
        from surehand.providers.mcp.transports.streamable_http import StreamableHttpTransport

        kinds: dict[Way, type[SseTransport | StreamableHttpTransport]] = {
            "streamable": StreamableHttpTransport,
            "sse": SseTransport,
        }
        return [kinds[way](self, who, ended) for way in self.ways]

    def falls_back(self, error: BaseException) -> bool:
        """Whether a server that said this to the first request may know the other way."""
        return falls_back(error)


class Sse(Http):
    """A server at a URL that knows the older way (SSE) only."""

    ways = ("sse",)


def falls_back(error: BaseException) -> bool:
    """Whether an error of the first request means that the server may know the other way: 400, 404, 405, 406, 415."""
    return failure_of(error).status in _OTHER_WAY


def checked(url: Any) -> Target:
    """Where a URL leads; a developer's mistake is told when it is made."""
    fix = "give it whole, as in 'https://example.com/mcp'."
    if not isinstance(url, str):
        raise DefinitionError(f"{url!r} is no URL.", fix=fix)
    try:
        return target_of(url)
    except ToolError as error:
        raise DefinitionError(f"{plain_url(url)!r} cannot be reached: {error}", fix=fix) from None


def reaching(settings: Settings | None, target: Target, max_frame: int) -> Settings:
    """The developer has named this host: it may be reached wherever it is."""
    settings = settings or Settings(timeout=None, read_timeout=READ_TIMEOUT)
    given = settings.allow_private
    private: Private = given if given is True else (*(() if given is False else given), target.host)
    hosts = tuple(settings.allow_hosts)
    ports = settings.ports
    if ports is None:
        ports = None if target.port in PORTS else "any"
    return replace(
        settings,
        allow_private=private,
        allow_hosts=(*hosts, target.host) if hosts else (),
        ports=ports if ports is None or ports == "any" else {*ports, target.port},
        max_bytes=max_frame,
        dialer=settings.dialer or kept_alive,
    )


def query_mark(url: str) -> str:
    """Two addresses that differ in their query are two servers; what is in it may be a secret."""
    query = urlsplit(url).query
    return f"#{sha256(query.encode()).hexdigest()[:8]}" if query else ""
