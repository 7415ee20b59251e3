"""Web: a server that is reached over HTTP, in either of the two ways that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from toolwright.core.durations import size
from toolwright.core.errors import DefinitionError, Denied, ToolError
from toolwright.http.guard import PORTS, Private
from toolwright.http.keepalive import kept_alive
from toolwright.http.settings import Settings
from toolwright.http.target import Target, target_of
from toolwright.providers.mcp.routes.label import namespace_of_url, plain_url
from toolwright.providers.mcp.routes.route import MAX_FRAME, Ended, Route, Texts, Who
from toolwright.providers.mcp.routes.trouble import NotSignedIn, Trouble, trouble_of

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


class Http(Route):
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

    def targets(self, who: Who, ended: Ended) -> Sequence[Any]:
        """The ways to reach it, the newer first."""
        from toolwright.providers.mcp.routes.events import Posted
        from toolwright.providers.mcp.routes.exchange import Streamed

        kinds: dict[Way, Any] = {"streamable": Streamed, "sse": Posted}
        return [kinds[way](self, who, ended) for way in self.ways]

    def falls_back(self, error: BaseException) -> bool:
        """Whether a server that said this to the first request may know the other way."""
        return falls_back(error)


class Sse(Http):
    """A server at a URL that knows the older way (SSE) only."""

    ways = ("sse",)


def falls_back(error: BaseException) -> bool:
    """Whether an error of the first request means that the server may know the other way: 400, 404, 405, 406, 415."""
    return trouble_of(error).status in _OTHER_WAY


def trouble(error: BaseException) -> Trouble:
    """What an error of `httpx2` means for the request that met it."""
    import httpx2

    if isinstance(error, httpx2.HTTPStatusError):
        return refused(error.request.url.host, error.response.status_code)
    if isinstance(error.__cause__, ToolError):  # what the guard, or its transport, has to say
        return _told(error.__cause__, error)
    early = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
    unsent = isinstance(error, early)
    message = "The server could not be reached." if unsent else f"The server broke off ({type(error).__name__})."
    return Trouble(not unsent, unsent, message, cause=error)


def _told(told: ToolError, error: BaseException) -> Trouble:
    unsent = not told.executed
    hopeless, stranger = isinstance(told, Denied), isinstance(told, NotSignedIn)
    return Trouble(not unsent, unsent, str(told), hopeless=hopeless, stranger=stranger, cause=error)


_REFUSALS = {
    401: "It asks for a login (401): give `auth`, or a token in `headers`.",
    403: "It does not let us in (403): the token, or whoever it belongs to, lacks the right.",
    404: "There is no such address (404). Is the URL right?",
    405: "Requests of this kind are not taken here (405). Is the URL right?",
    429: "It asks to slow down (429).",
}


_UNDECIDED = frozenset({408, 409, 425, 429, 499})
"""What is said by those in between, too: nobody knows how far the request came."""


def refused(host: str, status: int, *, session: bool = False) -> Trouble:
    """What a status that is none of success means, where nothing else says it.

    Args:
        session: whether the request belonged to one.
    """
    if session and status in (404, 410):
        return Trouble(False, True, "The server does not know this session any more.", status=status)
    what = f"{host}: {_REFUSALS.get(status, f'It answered with status {status}.')}"
    if status in (401, 403):  # before any work is done
        return Trouble(False, False, what, status=status, hopeless=True, stranger=True)
    return Trouble(True, False, what, status=status, answered=status < 500 and status not in _UNDECIDED)


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
