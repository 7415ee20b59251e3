"""The open connections of one server, by owner. The provider creates one pool per server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from surehand.core.call import Call, Principal
from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import ServerAddress
from surehand.providers.mcp.connection_owner import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.options import ServerOptions

if TYPE_CHECKING:
    from surehand.providers.mcp.connection.connection import Connection, OnManifest


class ConnectionPool:
    """Each user, or each session, has a connection of its own, so that no call uses the credentials of another user."""

    def __init__(
        self, server_name: str, address: ServerAddress, options: ServerOptions, on_manifest: OnManifest
    ) -> None:
        self._server_name = server_name
        self._address = address
        self._options = options
        self._on_manifest = on_manifest
        self._connections: dict[ConnectionOwner, Connection] = {}
        self._closing_tasks: set[asyncio.Task[None]] = set()

    def trace_messages(self) -> None:
        """Log the messages of connections that are opened from now on."""
        self._options = replace(self._options, trace=True)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections.values()))

    def owner_of(self, caller: Call | Principal) -> ConnectionOwner:
        """The owner of the connection that a call, or the calls of a principal, use."""
        match self._options.per:
            case "everyone":
                return ANONYMOUS
            case "user":
                return ConnectionOwner(caller.user)
            case "session":
                return ConnectionOwner(caller.user, caller.session)

    def get_or_create(self, owner: ConnectionOwner) -> Connection:
        """The connection of an owner, created but not started if needed. A full pool evicts an idle connection."""
        existing = self._connections.get(owner)
        if existing is not None:
            return existing
        # Loads the MCP SDK, which takes about a second.
        from surehand.providers.mcp.connection.connection import Connection

        if len(self._connections) >= self._options.sessions:
            self._evict_idle_connection()
        connection = Connection(self._server_name, self._address, owner, self._options, self._on_manifest)
        self._connections[owner] = connection
        return connection

    def find(self, owner: ConnectionOwner) -> Connection | None:
        """The connection of an owner, if it has one."""
        return self._connections.get(owner)

    def _evict_idle_connection(self) -> None:
        """Close the connection that was idle for longest. Raises `NotStarted` if all are in use."""
        idle = [connection for connection in self if not connection.is_busy]
        if not idle:
            raise NotStarted(
                f"The MCP server {self._server_name} has {self._options.sessions} connections, all in use. "
                "Try again later."
            )
        oldest = min(idle, key=lambda connection: connection.last_used_at)
        del self._connections[oldest.owner]
        task = asyncio.get_running_loop().create_task(oldest.close(), name=f"mcp: {self._server_name} evicts")
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    async def close(self) -> None:
        """Close all connections."""
        connections, self._connections = list(self), {}
        await asyncio.gather(*(connection.close() for connection in connections), *self._closing_tasks)
