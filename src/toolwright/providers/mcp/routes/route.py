"""Route: how a server is reached."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, NamedTuple, TypeAlias

from toolwright.core.errors import DefinitionError, ToolError
from toolwright.providers.mcp.routes.trouble import Nameless, words
from toolwright.providers.mcp.routes.trouble import Trouble as Trouble
from toolwright.providers.mcp.routes.trouble import trouble_of as trouble_of

MAX_FRAME = 4 << 20
"""Bytes that one message of a server may have, where nothing else is said."""


class Who(NamedTuple):
    """Whose connection it is."""

    user: str | None = None
    session: str | None = None


EVERYONE = Who()

Ended: TypeAlias = Callable[[str], None]
Texts: TypeAlias = Mapping[str, Any] | Callable[[Who], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
"""Headers or variables: a mapping, whose values may be functions of `Who`, or a function of `Who` that gives one."""


class Route:
    """How a server is reached: what `Stdio`, `Http`, `Sse`, `WebSocket` and `Memory` have in common."""

    label: str
    """One line for people: the exact command, or the URL. What looks like a secret is masked."""
    identity: str
    """Says which server it is, in the same words each time: the key of all that is remembered of it."""
    namespace: str
    """What its tools are named after, where nothing else is said."""
    name: str | None = None
    """What the log calls it, where that is not its namespace."""

    @property
    def log(self) -> logging.Logger:
        """Where what it says is written."""
        return logging.getLogger(f"toolwright.mcp.{self.name or self.namespace}")

    connecting: float = 120.0
    """Seconds that a server has to come up: some are downloaded first."""

    def targets(self, who: Who, ended: Ended) -> Sequence[Any]:
        """What the library's `Client` takes, in the order to be tried; made anew for each connection.

        Args:
            ended: told once, with the reason, when the other side goes away by itself.
        """
        raise NotImplementedError

    async def explain(self) -> str:
        """What is known of why it does not come up; empty if nothing."""
        return ""

    def hopeless(self, error: BaseException) -> bool:
        """Whether another try cannot help until somebody changes something."""
        return trouble_of(error).hopeless

    def falls_back(self, error: BaseException) -> bool:
        """Whether an error of the first request means that the next target is to be tried."""
        return False


async def resolved(given: Texts, who: Who) -> dict[str, str]:
    """Headers or variables as they are for somebody, at this moment. Raises `Nameless` where nobody has any."""
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
        raise Nameless(f"What says who asks is not to be had for nobody ({words(error)}).") from error


async def _text(name: str, value: Any, who: Who) -> str:
    if callable(value):
        value = value(who)
    if isawaitable(value):
        value = await value
    if not isinstance(value, str):
        raise DefinitionError(f"{name!r} is no text.", fix="give text, or a function of `Who` that gives it.")
    return value
