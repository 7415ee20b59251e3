"""Sessions: the connections of one server, by whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surehand.core.call import Call, Principal
from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import ANONYMOUS, ConnectionOwner, ServerAddress
from surehand.providers.mcp.options import ServerOptions

if TYPE_CHECKING:
    from surehand.providers.mcp.connection.connection import Connection, OnManifest


class ConnectionPool:
    """Each user, or each session, has a connection of its own; nobody acts in another's name."""

    def __init__(
        self, server_name: str, address: ServerAddress, options: ServerOptions, on_manifest: OnManifest
    ) -> None:
        self._server_name, self._address, self._options, self._on_manifest = server_name, address, options, on_manifest
        self._connections: dict[ConnectionOwner, Connection] = {}
        self._closing_tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections.values()))

    def owner_of(self, caller: Call | Principal) -> ConnectionOwner:
        """Whose connection a call uses, or all that somebody calls."""
        match self._options.per:
            case "everyone":
                return ANONYMOUS
            case "user":
                return ConnectionOwner(caller.user)
            case "session":
                return ConnectionOwner(caller.user, caller.session)

    def get_or_create(self, owner: ConnectionOwner) -> Connection:
        """The connection of somebody; it is not started yet."""
        if (known := self._connections.get(owner)) is not None:
            return known
        from surehand.providers.mcp.connection.connection import Connection  # loads the library, which takes a second

        if len(self._connections) >= self._options.sessions:
            self._evict_idle_connection()
        made = self._connections[owner] = Connection(
            self._server_name, self._address, owner, self._options, self._on_manifest
        )
        return made

    def find(self, owner: ConnectionOwner) -> Connection | None:
        """The connection of somebody, if there is one."""
        return self._connections.get(owner)

    def _evict_idle_connection(self) -> None:
        """The one that has been quiet for longest goes; what is in use stays."""
        quiet = [connection for connection in self if not connection.is_busy]
        if not quiet:
            raise NotStarted(
                f"The MCP server {self._server_name} has {self._options.sessions} connections, all in use. Try again later."
            )
        oldest = min(quiet, key=lambda connection: connection.last_used_at)
        del self._connections[oldest.owner]
        going = asyncio.get_running_loop().create_task(oldest.close(), name=f"mcp: {self._server_name} makes room")
        self._closing_tasks.add(going)
        going.add_done_callback(self._closing_tasks.discard)

    async def close(self) -> None:
        """Leave them all."""
        connections, self._connections = list(self), {}
        await asyncio.gather(*(connection.close() for connection in connections), *self._closing_tasks)
