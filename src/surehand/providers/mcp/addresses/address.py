"""The base class of server addresses: how a developer configures where a server is and how it is reached.

An address creates the transports of a connection and resolves the headers or variables of its owner. It never loads
the MCP SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.transports.connection_errors import UserRequired, describe_error, failure_from_error

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport

DEFAULT_MAX_FRAME_BYTES = 4 << 20
"""Largest message of a server in bytes, unless the developer sets another limit."""


class ConnectionOwner(NamedTuple):
    """The user, and with `per="session"` the session, that a connection belongs to."""

    user: str | None = None
    session: str | None = None


ANONYMOUS = ConnectionOwner()
"""Owner of the connection that belongs to no user: it lists tools, and serves anonymous or shared calls."""

InProcessServer: TypeAlias = Any
"""A `Server` or `MCPServer` object of the MCP SDK, which `mcp.Client` accepts in place of a transport."""
OnConnectionEnd: TypeAlias = Callable[[str], None]
"""Called once with the reason when the server ends a connection."""
HeadersOrEnv: TypeAlias = (
    Mapping[str, Any] | Callable[[ConnectionOwner], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
)
"""Headers or environment variables: a mapping, whose values may be functions of the `ConnectionOwner`, or a function of
the `ConnectionOwner` that returns a mapping. The functions may be async."""


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

    connection_timeout_seconds: float = 120.0
    """Time for starting the server, the handshake and the first list: some servers are downloaded first."""

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd
    ) -> Sequence[Transport | InProcessServer]:
        """Create unopened transports, in the order in which to try them; or return a server object of this process.

        Args:
            on_end: called once, with the reason, when the server closes the connection.
        """
        raise NotImplementedError

    def exit_report(self) -> str:
        """How the last process of the server ended, for a person; empty if it is not a process."""
        return ""

    def is_permanent_error(self, error: BaseException) -> bool:
        """Whether retrying cannot help until the configuration changes."""
        return failure_from_error(error).is_permanent

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether this error of the first request means that the server may support the next transport."""
        return False


async def resolve_headers_or_env(source: HeadersOrEnv, owner: ConnectionOwner) -> dict[str, str]:
    """Call the functions of a source for one owner.

    Raises `UserRequired` if a function fails for an anonymous connection: with a user it may work.
    """
    try:
        values: Any = source(owner) if callable(source) else source
        if isawaitable(values):
            values = await values
        return {name: await _resolve_value(name, value, owner) for name, value in (values or {}).items()}
    except (ToolError, DefinitionError):
        raise
    except Exception as error:
        if owner != ANONYMOUS:
            raise
        raise UserRequired(
            f"The headers or variables function failed for an anonymous call ({describe_error(error)})."
        ) from error


async def _resolve_value(name: str, value: Any, owner: ConnectionOwner) -> str:
    if callable(value):
        value = value(owner)
    if isawaitable(value):
        value = await value
    if not isinstance(value, str):
        raise DefinitionError(
            f"The value of {name!r} is not a string.", fix="give a string, or a function of the owner that returns one."
        )
    return value
