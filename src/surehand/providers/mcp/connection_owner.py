"""Whose connection to a server it is, and the headers or environment variables of that owner.

Addresses, transports, connections and OAuth use it. It does not load the MCP SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple, TypeAlias

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.connection_errors import UserRequired, describe_error
from surehand.providers.mcp.connection_secrets import ConnectionSecrets


class ConnectionOwner(NamedTuple):
    """The user, and with `per="session"` the session, that a connection belongs to."""

    user: str | None = None
    session: str | None = None


ANONYMOUS = ConnectionOwner()
"""Owner of the connection that belongs to no user: it lists tools, and serves anonymous or shared calls."""

HeadersOrEnv: TypeAlias = (
    Mapping[str, Any] | Callable[[ConnectionOwner], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
)
"""Headers or environment variables: a mapping, whose values may be functions of the `ConnectionOwner`, or a function of
the `ConnectionOwner` that returns a mapping. The functions may be async."""


async def resolve_headers_or_env(
    source: HeadersOrEnv, owner: ConnectionOwner, secrets: ConnectionSecrets | None = None
) -> dict[str, str]:
    """Call the functions of a source for one owner, and add the values to the secrets of its connection.

    Raises `UserRequired` if a function fails for an anonymous connection: with a user it may work.
    """
    try:
        values: Any = source(owner) if callable(source) else source
        if isawaitable(values):
            values = await values
        resolved = {name: await _resolve_value(name, value, owner) for name, value in (values or {}).items()}
    except (ToolError, DefinitionError):
        raise
    except Exception as error:
        if owner != ANONYMOUS:
            raise
        raise UserRequired(
            f"The headers or variables function failed for an anonymous call ({describe_error(error)})."
        ) from error
    if secrets is not None:
        secrets.add(resolved)
    return resolved


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
