"""The table of open HTTP connections, and the limits of each. Beyond the maximum, idle connections are closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from surehand.core.clock import Deadlines


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Time and size limits of one connection, and the number of connections."""

    head_timeout: float = 10.0
    """Seconds for the head of a request from its first byte, and for the first request from the connection."""
    body_timeout: float = 60.0
    """Seconds for the body of a request."""
    write_timeout: float = 60.0
    """Seconds in which the client has to read something of a response that is waiting for it."""
    linger_timeout: float = 2.0
    """Seconds in which the rest of a refused body is read and dropped. A sender whose connection is closed while it
    sends does not see the response."""
    keep_alive_timeout: float = 30.0
    """Seconds between two requests on one connection."""
    max_connections: int = 512
    """Connections at the same time. Beyond it, idle ones are closed to make room."""
    max_head_bytes: int = 64 << 10
    """Bytes of the head of a request."""
    stop_timeout: float = 1.0
    """Seconds for running requests to be answered when the server stops."""


class TrackedConnection(Protocol):
    """A connection, as far as the table uses it."""

    client_address: str

    @property
    def is_idle(self) -> bool:
        """Whether the client waits for no response."""

    def abort(self) -> None:
        """Close the connection now."""


class ConnectionTable:
    """All open connections. Beyond the limit, the client with the most connections loses its longest idle one."""

    def __init__(self, limits: ConnectionLimits, deadlines: Deadlines) -> None:
        self.limits = limits
        self.deadlines = deadlines
        self.is_stopping = False
        """Whether requests are cancelled when their connection is lost."""
        self._connections_by_client: dict[str, dict[TrackedConnection, None]] = {}
        """The connections of each client, the one that has been unused for longest first."""
        self._count = 0

    def add(self, connection: TrackedConnection) -> bool:
        """Register a connection. False if there is no room for it, because all others are busy."""
        self._connections_by_client.setdefault(connection.client_address, {})[connection] = None
        self._count += 1
        if self._count <= self.limits.max_connections:
            return True
        idle = self._longest_idle(connection)
        if idle is None:
            return False
        self.remove(idle)
        idle.abort()
        return True

    def _longest_idle(self, newcomer: TrackedConnection) -> TrackedConnection | None:
        for connections in sorted(self._connections_by_client.values(), key=len, reverse=True):
            for each in connections:
                if each.is_idle and each is not newcomer:
                    return each
        return None

    def mark_used(self, connection: TrackedConnection) -> None:
        """The connection has just been used, so it is the last of its client to be closed."""
        connections = self._connections_by_client.get(connection.client_address, {})
        if connection in connections:
            del connections[connection]
            connections[connection] = None

    def remove(self, connection: TrackedConnection) -> None:
        """Forget a connection; do nothing if it is not registered."""
        connections = self._connections_by_client.get(connection.client_address, {})
        if connection in connections:
            del connections[connection]
            self._count -= 1
            if not connections:
                del self._connections_by_client[connection.client_address]

    def abort_all(self) -> None:
        """Close every connection and cancel what runs for it."""
        self.is_stopping = True
        for connections in list(self._connections_by_client.values()):
            for each in list(connections):
                each.abort()
