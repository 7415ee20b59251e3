"""Server address: what every configured way to reach a server has in common."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.transports.connection_errors import Nameless, describe, failure_of

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport

MAX_FRAME = 4 << 20
"""Bytes of one message of a server, by default."""


class Who(NamedTuple):
    """Whose connection it is."""

    user: str | None = None
    session: str | None = None


EVERYONE = Who()

InProcessServer: TypeAlias = Any
"""A `Server` or `MCPServer` object of the MCP SDK, which `mcp.Client` is given as it is."""
Ended: TypeAlias = Callable[[str], None]
Texts: TypeAlias = Mapping[str, Any] | Callable[[Who], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
"""Headers or variables: a mapping, whose values may be functions of `Who`, or a function of `Who` that gives one."""


class ServerAddress:
    """How a server is reached; `Stdio`, `Http`, `Sse`, `WebSocket` and `Memory` are the kinds."""

    label: str
    """One line for people: the exact command, or the URL. What looks like a secret is masked."""
    identity: str
    """The same text for the same server each time: the key under which everything about it is stored."""
    namespace: str
    """The default namespace of its tools."""
    name: str | None = None
    """Its name in the log, where that is not its namespace."""

    @property
    def log(self) -> logging.Logger:
        """The logger for what the server says."""
        return logging.getLogger(f"surehand.mcp.{self.name or self.namespace}")

    connecting: float = 120.0
    """Seconds that a server has to start: some are downloaded first."""

    def transports(self, who: Who, ended: Ended) -> Sequence[Transport | InProcessServer]:
        """New connections in the order in which they are to be tried; a server object of this process has none.

        Args:
            ended: called once, with the reason, when the server closes the connection.
        """
        raise NotImplementedError

    def exit_report(self) -> str:
        """How the process that was started last ended, for a person; empty if there is none."""
        return ""

    def hopeless(self, error: BaseException) -> bool:
        """Whether another try fails too until the configuration changes."""
        return failure_of(error).hopeless

    def falls_back(self, error: BaseException) -> bool:
        """Whether this error of the first request means that the next transport is to be tried."""
        return False


async def resolved(given: Texts, who: Who) -> dict[str, str]:
    """The headers or variables of a user at this moment. Raises `Nameless` where they need a user and there is none."""
    try:
        found: Any = given(who) if callable(given) else given
        if isawaitable(found):
            found = await found
        return {name: await _text(name, value, who) for name, value in (found or {}).items()}
    except (ToolError, DefinitionError):
        raise
    except Exception as error:
        if who != EVERYONE:
            raise
        raise Nameless(
            f"The headers or variables function failed for an anonymous call ({describe(error)})."
        ) from error


async def _text(name: str, value: Any, who: Who) -> str:
    if callable(value):
        value = value(who)
    if isawaitable(value):
        value = await value
    if not isinstance(value, str):
        raise DefinitionError(f"{name!r} is no text.", fix="give text, or a function of `Who` that gives it.")
    return value
