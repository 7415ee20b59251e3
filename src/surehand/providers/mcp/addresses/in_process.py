"""The address of a server that is an object of the MCP SDK in this process; `mcp.server(obj)` creates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.addresses.address import InProcessServer, ServerAddress
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.labels import to_namespace
from surehand.providers.mcp.transports.transport import OnConnectionEnd


class InProcessAddress(ServerAddress):
    """A `Server` or `MCPServer` object, called without a transport, in either protocol."""

    def __init__(self, server: Any) -> None:
        if isinstance(server, type) or not any(_is_sdk_server(kind) for kind in type(server).__mro__):
            raise DefinitionError(
                f"{server!r:.100} is not a server object of the MCP SDK.", fix="give an `mcp.server.MCPServer` object."
            )
        self._server = server
        name = str(server.name or "server")
        self.label = f"{name} (in this process)"
        self.identity = f"memory:{name}"
        self.namespace = to_namespace(name)

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[InProcessServer]:
        """The object itself, which `mcp.Client` calls directly. It never ends the connection."""
        return [self._server]


def _is_sdk_server(kind: type) -> bool:
    """Whether a class is a server class, by name: importing the MCP SDK to compare takes about a second."""
    return kind.__module__.startswith("mcp.server.") and kind.__name__ in ("Server", "MCPServer")
