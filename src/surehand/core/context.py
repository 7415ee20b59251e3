"""Context: what a handler may know of its call and do during it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from surehand.core.call import Arguments, Principal
from surehand.core.errors import Unavailable
from surehand.core.outcome import Outcome

T = TypeVar("T")


class RunningCall(Protocol):
    """The call behind a context. The runtime's is an Invocation; a tool that is run directly has its own."""

    arguments: dict[str, Any]
    attempt: int
    cancelled: bool

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
    def is_standalone(self) -> bool:
        """Whether the tool is run by itself, with no runtime around it."""
        ...

    def report(self, update: Mapping[str, Any]) -> None: ...
    def find_value(self, value_type: type[T]) -> T | None: ...
    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome: ...
    async def open_store(self) -> Any: ...
    def set_active_space(self, space: str | None) -> None: ...


class Context:
    """A handler's view of its own call."""

    __slots__ = ("_call",)

    def __init__(self, call: RunningCall) -> None:
        self._call = call

    @property
    def call_id(self) -> str:
        """The id of this call."""
        return self._call.id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one call: send it along, and the other side can tell a repetition."""
        return self._call.id

    @property
    def agent(self) -> str | None:
        """Who is calling."""
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
        """For whom the call is made."""
        return self._call.principal.user

    @property
    def space(self) -> str | None:
        """The active space, where a visible call is shown."""
        return self._call.principal.space

    @property
    def attempt(self) -> int:
        """1 for the first attempt, more after a retry."""
        return self._call.attempt

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result any more; a sync handler should look at it now and then."""
        return self._call.cancelled

    @property
    def state(self) -> dict[str, Any]:
        """A place for values that later calls of the same session see."""
        return self._call.state

    @property
    def workspace(self) -> str:
        """The folder that file paths are meant in."""
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
        """Tell of progress: a message, a fraction from 0 to 1, a title, or any further values."""
        self._call.report({**_progress_update(update), **({"title": title} if title is not None else {}), **data})

    async def call(self, tool: str, arguments: Arguments = None, *, timeout: float | None = None) -> Outcome:
        """Call another tool as part of this call."""
        return await self._call.call_tool(tool, arguments, timeout)

    async def store(self) -> Any:
        """What the runtime remembers: its `Store`, or one in memory where it was given none."""
        return await self._call.open_store()

    def set_active_space(self, space: str | None) -> None:
        """Show the visible calls of this agent in another space, or in none, for the rest of the session."""
        self._call.set_active_space(space)

    def use(self, value_type: type[T]) -> T:
        """The nearest value of that type that a scope offers."""
        if (value := self._call.find_value(value_type)) is None:
            raise missing_value_error(value_type)
        return value


def _progress_update(update: tuple[Any, ...]) -> dict[str, Any]:
    match update:
        case ():
            return {}
        case (str() as message,):
            return {"message": message}
        case (bool(),):
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
    """What a tool says that needs something nobody offers."""
    return Unavailable(
        f"the tool needs a {value_type.__name__}, and no scope offers one. "
        f"Its developer offers it with runtime.scope(<{value_type.__name__}>)."
    )
