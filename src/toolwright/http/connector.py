"""Connector: looks a host up once for each connection, judges every address, and dials what it has judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from toolwright.core.errors import Denied, NotStarted
from toolwright.http.addresses import Address, parsed
from toolwright.http.failures import unsent
from toolwright.http.guard import Guard
from toolwright.http.resolver import Resolver, SystemResolver, unknown_host
from toolwright.http.target import host_of

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

Dialer: TypeAlias = Callable[[str, int, float | None], Awaitable["AsyncNetworkStream"]]
"""Opens a connection to an address and a port within some seconds."""

MOST_TRIED = 8
MOST_JUDGED = 256


class Connector:
    """A network backend of `httpcore2` that reaches only what its guard permits.

    The name of the host stays in the Host header and in the TLS handshake; only the dialling goes by address.
    """

    def __init__(self, guard: Guard, *, resolver: Resolver | None = None, dialer: Dialer | None = None) -> None:
        self._guard = guard
        self._resolve: Resolver = SystemResolver() if resolver is None else resolver
        self._dial = dialer or dial
        self._judged: dict[tuple[str, int], Sequence[Address]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> AsyncNetworkStream:
        """Resolve, judge, dial; `httpcore2` calls this for each new connection."""
        try:
            async with asyncio.timeout(timeout):
                addresses = self._judged.get((host, port)) or await self._permitted(host, port)
                return await self._first(addresses, port, timeout)
        except TimeoutError as error:
            raise NotStarted(f"{host} could not be reached in time. Try again later.") from error

    async def _permitted(self, host: str, port: int) -> Sequence[Address]:
        name = host_of(f"[{host}]" if ":" in host else host)
        self._guard.check_host(name, port)
        found = await self._addresses(name, port)
        addresses = self._guard.check_addresses(name, port, found)[:MOST_TRIED]
        if host == str(found[0]) and len(self._judged) < MOST_JUDGED:
            self._judged[host, port] = addresses  # an address, and no name: what is said of it holds the next time, too
        return addresses

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> NoReturn:
        """Never: a socket file is not the internet."""
        raise NotStarted("Socket files cannot be reached from here.")

    async def sleep(self, seconds: float) -> None:
        """Wait, as `httpcore2` does between attempts."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Let the resolver's threads end."""
        if isinstance(self._resolve, SystemResolver):
            self._resolve.close()

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            return [parsed(host)]
        except ValueError:
            found = [parsed(text) for text in await self._resolve(host, port)]
        if not found:
            raise unknown_host(host)
        if len(found) > MOST_JUDGED:
            raise unsent(Denied(f"{host} has {len(found)} addresses, and none has been tried. Use another source."))
        return list(dict.fromkeys(found))

    async def _first(self, addresses: Sequence[Address], port: int, timeout: float | None) -> AsyncNetworkStream:
        """The first that answers; none may use up the time of those after it."""
        from httpcore2 import ConnectError, ConnectTimeout

        share = None if timeout is None else timeout / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._dial(str(address), port, share)
            except (ConnectError, ConnectTimeout, OSError):
                continue
        return await self._dial(str(addresses[-1]), port, share)


async def dial(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a TCP connection to an address that has been judged."""
    from httpcore2 import AnyIOBackend

    return await AnyIOBackend().connect_tcp(address, port, timeout=timeout)
