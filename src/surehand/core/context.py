"""The context of a call: what a handler can read about its call, and what it can do while it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from surehand.core.call import Arguments, Principal
from surehand.core.clock import Clock
from surehand.core.errors import Unavailable
from surehand.core.outcome import Outcome

T = TypeVar("T")


class RunningCall(Protocol):
    """The call behind a context: an `Invocation` in a runtime, a `StandaloneCall` in `Tool.run`."""

    arguments: dict[str, Any]

    @property
    def attempt(self) -> int: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def id(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def state(self) -> dict[str, Any]: ...
    @property
    def workspace(self) -> str: ...
    @property
    def memory_dir(self) -> str | None: ...
    @property
    def session_dir(self) -> str | None: ...
    @property
    def threads(self) -> Any: ...
    @property
    def clock(self) -> Clock:
        """The clock of the runtime, or the system's."""
        ...

    @property
    def is_standalone(self) -> bool:
        """Whether the tool runs without a runtime."""
        ...

    def report(self, update: Mapping[str, Any]) -> None: ...
    def find_value(self, value_type: type[T]) -> T | None: ...
    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome: ...
    async def open_store(self) -> Any: ...
    def set_active_space(self, space: str | None) -> None: ...
    async def enter_space(self, space: str | None) -> None: ...
    def find_tool(self, name: str) -> ToolListing | None: ...
    def list_tools(self) -> Sequence[ToolListing]: ...


class ToolListing(Protocol):
    """A tool that the call's scope may use. The catalogue's `Listing` is one; core does not know the catalogue."""

    @property
    def name(self) -> str:
        """The full name, with the namespace."""
        ...

    @property
    def tool(self) -> Any:
        """The `Tool` itself."""
        ...


CURRENT_CALL: ContextVar[RunningCall] = ContextVar("surehand_current_call")
"""The call whose handler, confirmation or middleware runs now; `Context.get` reads it."""


class Context:
    """A handler's view of its own call."""

    __slots__ = ("_call",)

    def __init__(self, call: RunningCall) -> None:
        self._call = call

    @classmethod
    def get(cls) -> Context:
        """The context of the call that runs now, for functions that are not given it.

        Works in handlers, `confirm`, `confirm_message`, `preview` and middleware; raises `LookupError` elsewhere.
        """
        try:
            return cls(CURRENT_CALL.get())
        except LookupError:
            raise LookupError("Context.get() was called outside a call: only code that a call runs has one.") from None

    @property
    def call_id(self) -> str:
        """The id of this call."""
        return self._call.id

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of the call: a service that receives it can recognise a retry."""
        return self._call.id

    @property
    def agent(self) -> str | None:
        """The agent that makes the call."""
        return self._call.principal.agent

    @property
    def session(self) -> str | None:
        """The conversation that the call belongs to."""
        return self._call.principal.session

    @property
    def message(self) -> str | None:
        """The message that the call belongs to."""
        return self._call.principal.message

    @property
    def task(self) -> str | None:
        """The task that the call belongs to."""
        return self._call.principal.task

    @property
    def user(self) -> str | None:
        """The user on whose behalf the call is made."""
        return self._call.principal.user

    @property
    def space(self) -> str | None:
        """The active space, where a visible call is shown."""
        return self._call.principal.space

    @property
    def principal(self) -> Principal:
        """The user, agent, session and space of the call, as one value."""
        return self._call.principal

    @property
    def attempt(self) -> int:
        """1 for the first attempt, more after a retry."""
        return self._call.attempt

    @property
    def cancelled(self) -> bool:
        """True once the call is cancelled or timed out. A sync handler that takes long should check it regularly."""
        return self._call.cancelled

    @property
    def state(self) -> dict[str, Any]:
        """A dictionary that all calls of the session share."""
        return self._call.state

    @property
    def workspace(self) -> str:
        """The folder that relative file paths refer to."""
        return self._call.workspace

    @property
    def memory_dir(self) -> str | None:
        """The folder for the memory files of this scope; None where the scope sets none."""
        return self._call.memory_dir

    @property
    def session_dir(self) -> str | None:
        """The folder with the archives of this scope's session; None where the scope sets none."""
        return self._call.session_dir

    @property
    def log(self) -> logging.Logger:
        """A logger named after the tool."""
        return logging.getLogger(f"surehand.tool.{self._call.tool_name}")

    def report(self, *update: str | float | Mapping[str, Any], title: str | None = None, **data: Any) -> None:
        """Report progress: a message, a fraction from 0 to 1, a title, or any further values."""
        fields = _progress_update(update)
        if title is not None:
            fields["title"] = title
        self._call.report({**fields, **data})

    async def call(self, tool: str, arguments: Arguments = None, *, timeout: float | None = None) -> Outcome:
        """Call another tool as part of this call."""
        return await self._call.call_tool(tool, arguments, timeout)

    def find(self, name_or_alias: str) -> ToolListing | None:
        """Find a tool by name or alias among those of this call's scope, those for people too; None for any other."""
        return self._call.find_tool(name_or_alias)

    @property
    def tools(self) -> Sequence[ToolListing]:
        """The tools that this call's scope may use."""
        return self._call.list_tools()

    async def store(self) -> Any:
        """The runtime's `Store`; a runtime without one opens a store in memory."""
        return await self._call.open_store()

    def set_active_space(self, space: str | None) -> None:
        """Show the visible calls of this agent in another space, or in none, for the rest of the session."""
        self._call.set_active_space(space)

    async def enter_space(self, space: str | None) -> None:
        """Like `set_active_space`, and stored with the session, so that every process on the store knows it."""
        await self._call.enter_space(space)

    def use(self, value_type: type[T]) -> T:
        """The value of that type that the nearest scope offers."""
        value = self._call.find_value(value_type)
        if value is None:
            raise missing_value_error(value_type)
        return value


def _progress_update(update: tuple[Any, ...]) -> dict[str, Any]:
    match update:
        case ():
            return {}
        case (str() as message,):
            return {"message": message}
        case (bool(),):  # before `int`: a bool is an int too, and True is no fraction
            return {"message": str(update[0])}
        case (int() | float() as fraction,):
            return {"fraction": float(fraction)}
        case (int() | float() as fraction, message):
            return {"fraction": float(fraction), "message": str(message)}
        case (Mapping() as values,):
            return dict(values)
        case _:
            return {"message": " ".join(map(str, update))}


def missing_value_error(value_type: type) -> Unavailable:
    """The error of a tool that needs a value of a type that no scope offers."""
    return Unavailable(
        f"the tool needs a {value_type.__name__}, and no scope offers one. "
        f"Its developer offers it with runtime.scope(<{value_type.__name__}>)."
    )
