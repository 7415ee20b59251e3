"""`Connector` resolves a host once for each connection, checks every address, and connects to a checked address.

Used by the connection pool of `transport.py`, and by WebSocket connections to MCP servers. The resolver and the dialers
are here too: `dial` for the web tools, `connect_with_keepalive` for MCP connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from surehand.core.errors import Denied, NotFound, NotStarted
from surehand.core.threads import HandlerThreads
from surehand.http.errors import mark_unsent
from surehand.http.guard import AddressGuard
from surehand.http.ip_addresses import IpAddress, parse_address
from surehand.http.target import normalize_host

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host as text; it is given the host and the port."""
Dialer: TypeAlias = Callable[[str, int, float | None], Awaitable["AsyncNetworkStream"]]
"""Opens a connection to an address and a port within a timeout in seconds."""

MAX_ADDRESSES_TRIED = 8
MAX_ADDRESSES_CHECKED = 256
"""Addresses of one host; a host with more is refused."""
MAX_REMEMBERED_LITERALS = 256
_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""TCP keep-alive: idle seconds before the first probe, seconds between probes, and how many may go unanswered."""


class Connector:
    """A network backend for `httpcore2` that connects only to addresses that its guard permits.

    The host name stays in the Host header and in the TLS handshake; only the connection is made by address.
    """

    def __init__(self, guard: AddressGuard, *, resolver: Resolver | None = None, dialer: Dialer | None = None) -> None:
        self._guard = guard
        self._resolver: Resolver = SystemResolver() if resolver is None else resolver
        self._dialer = dialer or dial
        self._permitted_literals: dict[tuple[str, int], Sequence[IpAddress]] = {}
        """Hosts that are addresses and were permitted: no resolver can change what they stand for."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> AsyncNetworkStream:
        """Resolve, check, connect; `httpcore2` calls this for each new connection."""
        try:
            async with asyncio.timeout(timeout):
                addresses = self._permitted_literals.get((host, port)) or await self._permitted_addresses(host, port)
                return await self._connect_to_first(addresses, port, timeout)
        except TimeoutError as error:
            raise NotStarted(f"{host} could not be reached in time. Try again later.") from error

    async def _permitted_addresses(self, host: str, port: int) -> Sequence[IpAddress]:
        name = normalize_host(f"[{host}]" if ":" in host else host)
        self._guard.check_host(name, port)
        resolved = await self._resolve_addresses(name, port)
        addresses = self._guard.check_addresses(name, port, resolved)[:MAX_ADDRESSES_TRIED]
        if host == str(resolved[0]) and len(self._permitted_literals) < MAX_REMEMBERED_LITERALS:
            self._permitted_literals[host, port] = addresses
        return addresses

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> NoReturn:
        """Refuse: a socket file is not on the internet."""
        raise NotStarted("Socket files cannot be reached from here.")

    async def sleep(self, seconds: float) -> None:
        """Wait between two attempts of `httpcore2`."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Stop the resolver's threads."""
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    async def _resolve_addresses(self, host: str, port: int) -> list[IpAddress]:
        try:
            return [parse_address(host)]
        except ValueError:
            addresses = [parse_address(text) for text in await self._resolver(host, port)]
        if not addresses:
            raise unknown_host_error(host)
        if len(addresses) > MAX_ADDRESSES_CHECKED:
            raise mark_unsent(
                Denied(f"{host} has {len(addresses)} addresses, and none has been tried. Use another source.")
            )
        return list(dict.fromkeys(addresses))

    async def _connect_to_first(
        self, addresses: Sequence[IpAddress], port: int, timeout: float | None
    ) -> AsyncNetworkStream:
        """Connect to the first address that responds; each has an equal share of the timeout."""
        from httpcore2 import ConnectError, ConnectTimeout

        share = None if timeout is None else timeout / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._dialer(str(address), port, share)
            except (ConnectError, ConnectTimeout, OSError):
                continue
        return await self._dialer(str(addresses[-1]), port, share)


async def dial(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a TCP connection to an address that has been checked; asyncio sets TCP_NODELAY on it."""
    from httpcore2 import AnyIOBackend

    return await AnyIOBackend().connect_tcp(address, port, timeout=timeout)


async def connect_with_keepalive(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a connection that fails within about a minute after the peer has disappeared; a `Dialer`."""
    from surehand.http.low_latency import connect_low_latency  # loads httpcore2, an extra

    stream = await connect_low_latency(address, port, timeout)
    enable_keepalive(stream.get_extra_info("socket"))
    return stream


def enable_keepalive(open_socket: Any) -> None:
    """Have the kernel probe an idle connection, so that a peer that disappeared is noticed."""
    with suppress(OSError, AttributeError, TypeError):  # not every event loop exposes the socket
        open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE_OPTIONS.items():
            open_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class SystemResolver:
    """Resolves hosts with `getaddrinfo` in threads of its own, because that blocks and cannot be cancelled."""

    def __init__(self) -> None:
        self._threads = HandlerThreads(max_threads=8)

    async def __call__(self, host: str, port: int) -> list[str]:
        """Look up the addresses of a host."""
        try:
            entries = await self._threads.run(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (socket.gaierror, UnicodeError) as error:
            if getattr(error, "errno", None) == socket.EAI_AGAIN:
                raise NotStarted(f"The address of {host} could not be looked up now. Try again later.") from error
            raise unknown_host_error(host) from error
        return [str(entry[4][0]) for entry in entries]

    def close(self) -> None:
        """Stop the threads."""
        self._threads.close()


def unknown_host_error(host: str) -> NotFound:
    """The error for a host that does not exist."""
    return mark_unsent(NotFound(f"There is no host {host}. Check the spelling of the URL."))
