"""The base class of server addresses: how a developer configures where a server is and how it is reached.

An address creates the transports of a connection. It never loads the MCP SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from surehand.core.errors import NotFound
from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport

DEFAULT_MAX_FRAME_BYTES = 4 << 20
"""Largest message of a server in bytes, unless the developer sets another limit."""
InProcessServer: TypeAlias = Any
"""A `Server` or `MCPServer` object of the MCP SDK, which `mcp.Client` accepts in place of a transport."""


class ServerAddress:
    """How a server is reached. There is one subclass per transport, and one for a server object in this process."""

    label: str
    """One line for people: the command or the URL, with secrets masked."""
    identity: str
    """A stable key of the server, under which its manifest and its pins are stored."""
    namespace: str
    """The default namespace of its tools."""
    log_name: str | None = None
    """Its name in the log, if that is not its namespace."""

    @property
    def log(self) -> logging.Logger:
        """The logger of messages about and from the server."""
        return logging.getLogger(f"surehand.mcp.{self.log_name or self.namespace}")

    configured_by: ServerAddress | None = None
    """The address of a configuration entry that this one was resolved from."""

    connection_timeout_seconds: float = 120.0
    """Time for starting the server, the handshake and the first list: some servers are downloaded first."""

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[Transport | InProcessServer]:
        """Create unopened transports, in the order in which to try them; or return a server object of this process.

        Args:
            on_end: called once, with the reason, when the server closes the connection.
            secrets: takes the secrets that the transports send to the server, and masks them in their logs.
        """
        raise NotImplementedError

    def check_variables(self) -> None:
        """Raise `DefinitionError` if a variable that its configuration names is not set."""
        if self.configured_by is not None:
            self.configured_by.check_variables()

    def exit_report(self) -> str:
        """How the last process of the server ended, for a person; empty if it is not a process."""
        return ""

    def is_permanent_error(self, error: BaseException) -> bool:
        """Whether retrying cannot help until the configuration changes."""
        return failure_from_error(error).is_permanent

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether this error of the first request means that the server may support the next transport."""
        return False

    def is_signed_in(self, user: str | None) -> bool | None:
        """Whether a user has signed in; None if the server asks nobody to."""
        return None

    async def sign_in(self, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in; `show_url` gets the address to open in a browser."""
        raise NotFound(f"{self.label} takes no sign-in: it has no `auth: oauth`.")
