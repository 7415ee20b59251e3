"""Server address: what every configured way to reach a server has in common."""

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
"""Bytes of one message of a server, by default."""


class ConnectionOwner(NamedTuple):
    """Whose connection it is."""

    user: str | None = None
    session: str | None = None


ANONYMOUS = ConnectionOwner()

InProcessServer: TypeAlias = Any
"""A `Server` or `MCPServer` object of the MCP SDK, which `mcp.Client` is given as it is."""
OnConnectionEnd: TypeAlias = Callable[[str], None]
HeadersOrEnv: TypeAlias = (
    Mapping[str, Any] | Callable[[ConnectionOwner], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
)
"""Headers or variables: a mapping, whose values may be functions of `Who`, or a function of `Who` that gives one."""


class ServerAddress:
    """How a server is reached; `Stdio`, `Http`, `Sse`, `WebSocket` and `Memory` are the kinds."""

    label: str
    """One line for people: the exact command, or the URL. What looks like a secret is masked."""
    identity: str
    """The same text for the same server each time: the key under which everything about it is stored."""
    namespace: str
    """The default namespace of its tools."""
    log_name: str | None = None
    """Its name in the log, where that is not its namespace."""

    @property
    def log(self) -> logging.Logger:
        """The logger for what the server says."""
        return logging.getLogger(f"surehand.mcp.{self.log_name or self.namespace}")

    connection_timeout_seconds: float = 120.0
    """Seconds that a server has to start: some are downloaded first."""

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd
    ) -> Sequence[Transport | InProcessServer]:
        """New connections in the order in which they are to be tried; a server object of this process has none.

        Args:
            ended: called once, with the reason, when the server closes the connection.
        """
        raise NotImplementedError

    def exit_report(self) -> str:
        """How the process that was started last ended, for a person; empty if there is none."""
        return ""

    def is_permanent_error(self, error: BaseException) -> bool:
        """Whether another try fails too until the configuration changes."""
        return failure_from_error(error).is_permanent

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether this error of the first request means that the next transport is to be tried."""
        return False


async def resolve_headers_or_env(source: HeadersOrEnv, owner: ConnectionOwner) -> dict[str, str]:
    """The headers or variables of a user at this moment. Raises `Nameless` where they need a user and there is none."""
    try:
        found: Any = source(owner) if callable(source) else source
        if isawaitable(found):
            found = await found
        return {name: await _resolve_value(name, value, owner) for name, value in (found or {}).items()}
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
        raise DefinitionError(f"{name!r} is no text.", fix="give text, or a function of `Who` that gives it.")
    return value
