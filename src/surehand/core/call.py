"""Values that describe a call: the tool, its arguments, and the user, agent and session on whose behalf it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

Arguments: TypeAlias = Mapping[str, Any] | str | bytes | None
"""Arguments as a caller may send them: an object, its JSON text as models write it, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The user, agent, session and space of a call. A scope sets these once for all its calls."""

    agent: str | None = None
    session: str | None = None
    message: str | None = None
    task: str | None = None
    user: str | None = None
    space: str | None = None
    turn: str | None = None


NO_DISPLAY: Mapping[str, Any] = MappingProxyType({})
CallerFields: TypeAlias = tuple[str | None, str | None, str | None, str | None, str | None, str | None]
"""User, session, agent, space, turn and task: the last six fields of a `CallIdentity`."""


def caller_fields(principal: Principal) -> CallerFields:
    """The fields of a principal that events and stored rows carry."""
    return (
        principal.user,
        principal.session,
        principal.agent,
        principal.space,
        principal.turn,
        principal.task,
    )


class CallIdentity(NamedTuple):
    """Whose call it is, beside its id and tool: what every event, wait and stored row of a call carries."""

    parent: str | None = None
    """The id of the call that made this one."""
    model_id: str | None = None
    intent: str | None = None
    """`render`, `action` or `compute`, as the tool declares; None for an unknown tool."""
    display: Mapping[str, Any] = NO_DISPLAY
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeFolders:
    """Folders that the tools of a scope use instead of their own, as absolute paths."""

    memory_dir: str | None = None
    session_dir: str | None = None
    allowed_paths: tuple[str, ...] | None = None
    """Folders that the tools of a workspace may touch; None for all of the workspace."""


CURRENT_ALLOWED_PATHS: ContextVar[tuple[str, ...] | None] = ContextVar("surehand_allowed_paths", default=None)
"""The `allowed_paths` of the scope whose call runs here: the tools of a workspace are built before any scope."""


@dataclass(frozen=True)
class Call:
    """One request to run a tool."""

    tool: str
    arguments: Arguments = None
    id: str | None = field(default=None, kw_only=True)
    """An id from the caller makes the call idempotent: a second call with the same id gets the stored outcome."""
    agent: str | None = field(default=None, kw_only=True)
    session: str | None = field(default=None, kw_only=True)
    message: str | None = field(default=None, kw_only=True)
    task: str | None = field(default=None, kw_only=True)
    user: str | None = field(default=None, kw_only=True)
    space: str | None = field(default=None, kw_only=True)
    turn: str | None = field(default=None, kw_only=True)
    parent: str | None = field(default=None, kw_only=True)
    model_id: str | None = field(default=None, kw_only=True)
    """The id that the model gave the call; the result is sent back to the model under it."""
    priority: int | None = field(default=None, kw_only=True)
    """How urgent the call is in a queue, the higher the sooner; None takes that of its scope or tool, else 0."""
