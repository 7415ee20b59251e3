"""The outgoing client: every HTTP request of the package goes through here."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from toolwright.core.errors import DefinitionError, InvalidArguments, NotStarted, TimedOut, ToolError
from toolwright.outgoing.connector import Connector, Dialer
from toolwright.outgoing.decoding import OFFERED
from toolwright.outgoing.failures import told
from toolwright.outgoing.guard import PORTS, Guard, Ports, Private, guard_of
from toolwright.outgoing.headers import Headers, checked, has
from toolwright.outgoing.redirects import Outgoing
from toolwright.outgoing.resolver import Resolver
from toolwright.outgoing.response import Head, Incoming, Response, head_of, release
from toolwright.outgoing.target import target_of

if TYPE_CHECKING:
    import httpcore2

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that ask for nothing to be changed: they need no idempotency key."""
USER_AGENT = "toolwright (+https://pypi.org/project/toolwright)"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client may reach, and within which limits; times are in seconds."""

    allow_private: Private = False
    """False, True for addresses of one's own (loopback, private networks), or the hosts and networks that are meant."""
    allow_hosts: Iterable[str] = ()
    """Patterns such as `*.example.com`; where there are some, nothing else is reached."""
    deny_hosts: Iterable[str] = ()
    """Patterns, or networks, that are never reached."""
    ports: Ports = PORTS
    allow_downgrade: bool = False
    """Whether a redirect may lead from https to http."""
    timeout: float | None = 30.0
    """For all of it: every redirect, and the last byte."""
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    """Between two pieces of an answer."""
    max_bytes: int | None = 5 * 1024 * 1024
    max_ratio: float = 200.0
    """How many times its size a compressed answer may unpack to, once it is larger than a mebibyte."""
    max_header_bytes: int = 65_536
    max_redirects: int = 5
    max_connections: int = 64
    user_agent: str = USER_AGENT
    verify: ssl.SSLContext | None = field(default=None, repr=False)
    resolver: Resolver | None = None
    dialer: Dialer | None = None

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "read_timeout", "max_ratio", "max_header_bytes", "max_connections"):
            if not getattr(self, name) > 0:
                raise DefinitionError(f"{name}={getattr(self, name)!r} is no limit.", fix="give a number above zero.")
        if any(limit is not None and not limit > 0 for limit in (self.timeout, self.max_bytes)):
            raise DefinitionError("timeout and max_bytes are above zero.", fix="give a number, or None for no limit.")
        if self.max_redirects < 0:
            raise DefinitionError(f"max_redirects={self.max_redirects} is no number.", fix="give zero or more.")
        # Something that can be read only once would be empty, and so permit everything, the second time.
        for name in ("allow_private", "allow_hosts", "deny_hosts", "ports"):
            if isinstance(given := getattr(self, name), Iterator):
                object.__setattr__(self, name, tuple(given))
        self.guard()

    def guard(self) -> Guard:
        """What may be reached."""
        return guard_of(self.allow_private, self.allow_hosts, self.deny_hosts, self.ports)


class Limits(TypedDict, total=False):
    """The settings that one request may change."""

    timeout: float | None
    read_timeout: float
    max_bytes: int | None
    max_redirects: int


class Client:
    """Makes requests, follows redirects by hand, and keeps connections; no cookie is ever kept."""

    def __init__(self, settings: Settings | None = None, **changes: Any) -> None:
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
        settings = replace(self.settings, **limits)
        outgoing = self._outgoing(method, url, headers, body, idempotency_key)
        try:
            async with asyncio.timeout(settings.timeout) as deadline:
                async with self._answered(outgoing, settings) as incoming:
                    yield incoming
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimedOut(f"{outgoing.target.host} took longer than {settings.timeout:g} s.") from error

    def _outgoing(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        idempotency_key: str | None,
    ) -> Outgoing:
        method = method.upper()
        if method not in METHODS:
            raise InvalidArguments(f"{method[:20]!r} is no method. Use one of: {', '.join(sorted(METHODS))}.")
        sent = checked(headers)
        if idempotency_key and method not in SAFE and not has(sent, "idempotency-key"):
            sent = (*sent, ("Idempotency-Key", _as_key(idempotency_key)))
        return Outgoing(method, target_of(url), sent, body)

    @asynccontextmanager
    async def _answered(self, outgoing: Outgoing, settings: Settings) -> AsyncIterator[Incoming]:
        """Follow redirects to the answer; every hop is judged like the first."""
        seen = set[tuple[str, str]]()
        for hop in range(settings.max_redirects + 1):
            if (step := (outgoing.method, outgoing.target.url)) in seen:
                raise ToolError(f"{outgoing.target.host} redirects in a circle.")
            seen.add(step)
            async with self._sent(outgoing, settings, hop) as (head, stream):
                following = outgoing.next(head, downgrade=settings.allow_downgrade) if settings.max_redirects else None
                if following is None:
                    yield Incoming(
                        head,
                        stream,
                        host=outgoing.target.host,
                        max_bytes=settings.max_bytes,
                        max_ratio=settings.max_ratio,
                    )
                    return
            outgoing = following
        raise ToolError(f"{outgoing.target.host} is more than {settings.max_redirects} redirects away.")

    @asynccontextmanager
    async def _sent(self, outgoing: Outgoing, settings: Settings, hop: int) -> AsyncIterator[tuple[Head, Any]]:
        target = outgoing.target
        try:
            self._guard.check_host(target.host, target.port)
            with told(target.host):
                answer = await self._opened().handle_async_request(_request(outgoing, settings))
        except ToolError as error:
            if hop:
                error.executed = True  # what came before it has been sent
            raise
        try:
            yield head_of(outgoing.method, target, answer, settings.max_header_bytes), answer.stream
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


def _as_key(text: str) -> str:
    """Whoever calls may give his call any name, and not every name can be a header."""
    if len(text) <= 255 and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pool_of(connector: Connector, settings: Settings) -> httpcore2.AsyncConnectionPool:
    """Connections that are made by the connector alone: no proxy, no socket file, no HTTP/2."""
    try:
        from httpcore2 import AsyncConnectionPool
    except ImportError:
        raise NotStarted("HTTP needs the package httpx2: pip install 'toolwright[http]'") from None
    return AsyncConnectionPool(
        ssl_context=settings.verify or _system_trust(),
        network_backend=cast(Any, connector),  # it is one in all but its base class, which is loaded on first use
        max_connections=settings.max_connections,
        max_keepalive_connections=16,
        keepalive_expiry=5.0,
    )


@cache
def _system_trust() -> ssl.SSLContext:
    """Reading the certificates takes a while, and they are the same for all."""
    from httpcore2 import default_ssl_context

    return default_ssl_context()


def _request(outgoing: Outgoing, settings: Settings) -> httpcore2.Request:
    import httpcore2

    target, body = outgoing.target, outgoing.body
    url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    timeouts = {
        "connect": settings.connect_timeout,
        "read": settings.read_timeout,
        "write": settings.read_timeout,
        "pool": settings.connect_timeout,
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in _headers(outgoing, settings)]
    return httpcore2.Request(outgoing.method, url, headers=raw, content=body, extensions={"timeout": timeouts})


def _headers(outgoing: Outgoing, settings: Settings) -> Headers:
    """The caller's, and before them those of the connection."""
    ours = [("Host", outgoing.target.authority), ("Accept-Encoding", OFFERED)]
    if not has(outgoing.headers, "user-agent"):
        ours.append(("User-Agent", settings.user_agent))
    if not has(outgoing.headers, "accept"):
        ours.append(("Accept", "*/*"))
    if outgoing.body is not None or outgoing.method in ("POST", "PUT", "PATCH"):
        ours.append(("Content-Length", str(len(outgoing.body or b""))))
    return (*ours, *outgoing.headers)
