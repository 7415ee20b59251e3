"""Tool: one capability, whatever stands behind it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from surehand.core.call import Arguments, Principal
from surehand.core.canonical_json import json_digest
from surehand.core.description import DescriptionSource
from surehand.core.errors import DefinitionError, InvalidArguments, Unavailable
from surehand.core.facets import CallLimits, Lifecycle, Presentation, Safety, ToolKind
from surehand.core.handler import Handler, StartHandler
from surehand.core.ids import new_id
from surehand.core.invoke import build_invoker, failed_from_error
from surehand.core.outcome import Outcome
from surehand.core.schema import Parameters
from surehand.core.strict_json import decode_utf8
from surehand.core.threads import HandlerThreads

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True, eq=False, repr=False)
class Tool(Generic[P, R]):
    """One capability: a name, a description, parameters, and a handler that does the work.

    A decorated function stays a function: calling the tool calls it.
    """

    name: str
    description_source: DescriptionSource
    parameters: Parameters
    handler: Handler | None
    """None where a provider, or the model's own provider, does the work."""
    kind: ToolKind = "function"
    function: Callable[P, R] | None = None
    safety: Safety = field(default_factory=Safety)
    limits: CallLimits = field(default_factory=CallLimits)
    presentation: Presentation = field(default_factory=Presentation)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    where: str = ""
    """File and line of the definition."""
    rebind: Callable[[Callable[..., Any]], Tool[..., Any]] | None = field(default=None, compare=False)
    """Defines the same tool over a bound method."""

    @property
    def description(self) -> str:
        """What a model reads about the tool."""
        return self.description_source.render()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters."""
        return self.parameters.schema

    @property
    def effects(self) -> frozenset[str]:
        """The declared effects."""
        return self.safety.effects

    @property
    def repeatable(self) -> bool:
        """Whether running it twice does no harm."""
        return self.safety.repeatable

    @property
    def category(self) -> str:
        """What sort of tool it is."""
        return self.presentation.category

    @property
    def audience(self) -> str:
        """Who is shown the tool."""
        return self.presentation.audience

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return self.presentation.aliases

    @property
    def visible(self) -> bool:
        """Whether its calls show in the active space."""
        return self.presentation.visible

    def compile(self) -> StartHandler | None:
        """Make parameters and handler ready. Raises `DefinitionError`; after it, a call cannot."""
        if "start" not in self.__dict__:
            self.parameters.compile()
            self.__dict__["start"] = self.handler.compile() if self.handler else None
        return self.__dict__["start"]  # type: ignore[no-any-return]

    @property
    def defaults(self) -> dict[str, Any]:
        """What a call without these arguments runs with; policy and confirmation look at it too."""
        if "_defaults" not in self.__dict__:
            shown = self.schema.get("properties", {})
            fields = {name: field for name, field in shown.items() if isinstance(field, dict)}  # `true` is one, too
            known = {name: field["default"] for name, field in fields.items() if "default" in field}
            self.__dict__["_defaults"] = known | getattr(self.handler, "defaults", {})
        return self.__dict__["_defaults"]  # type: ignore[no-any-return]

    @property
    def definition_digest(self) -> str:
        """A digest of all that an approval or a cached result depends on."""
        if "_definition" not in self.__dict__:
            effects = sorted(self.safety.policy_effects)
            self.__dict__["_definition"] = json_digest(
                self.name, self.description, self.schema, effects, self.presentation.version
            )
        return self.__dict__["_definition"]  # type: ignore[no-any-return]

    def validate_arguments(self, arguments: Arguments) -> dict[str, Any]:
        """Arguments as the handler takes them; raises `InvalidArguments`."""
        if type(arguments) is dict:
            return self.parameters.validate_mapping(arguments)
        if isinstance(arguments, bytes):
            arguments = decode_utf8(arguments)
        if isinstance(arguments, str) and arguments.strip():
            return self.parameters.validate_json(arguments)
        if arguments is None or isinstance(arguments, str):
            arguments = {}
        if not isinstance(arguments, Mapping):
            raise InvalidArguments(f"The arguments must be an object, not {type(arguments).__name__}.")
        return self.parameters.validate_mapping(arguments)

    async def run(self, arguments: Arguments = None) -> Outcome:
        """Validate and run, with no runtime: no policy, no limits, nothing recorded."""
        if (start := self.compile()) is None:
            raise DefinitionError(f"{self.name} has no handler of its own.", fix="call it through a Runtime.")
        try:
            values = self.validate_arguments(arguments)
        except InvalidArguments as error:
            return failed_from_error(error).evolve(executed=False)
        return await build_invoker(self.name, start)(StandaloneCall(self.name, values))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.function is None:
            raise TypeError(f"{self.name} has no function to call. Use `await runtime.call({self.name!r}, ...)`.")
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type) -> Tool[Q, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """A tool on a class is bound like a method."""
        if instance is None or self.rebind is None or self.function is None:
            return self
        return self.rebind(self.function.__get__(instance, owner))

    def evolve(self, **changes: Any) -> Tool[P, R]:
        """The same tool with some parts changed: `tool.evolve(name="...")`."""
        return replace(self, **changes)

    def with_description(self, description: str | PathLike[str]) -> Tool[P, R]:
        """The same tool with another description."""
        return replace(self, description_source=DescriptionSource(description, self.function, self.name))

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.kind})>"


_shared_threads: list[HandlerThreads] = []
os.register_at_fork(after_in_child=_shared_threads.clear)  # a child has none of its parent's threads


class StandaloneCall:
    """The call of a tool that is run by itself."""

    principal = Principal()
    attempt = 1
    cancelled = False
    is_standalone = True
    workspace = ""
    memory_dir: str | None = None
    session_dir: str | None = None

    def __init__(self, tool_name: str, arguments: dict[str, Any]) -> None:
        self.tool_name, self.arguments = tool_name, arguments
        self.state: dict[str, Any] = {}
        self.id = new_id()

    @property
    def threads(self) -> HandlerThreads:
        if not _shared_threads:
            _shared_threads.append(HandlerThreads())
        return _shared_threads[0]

    def report(self, update: Mapping[str, Any]) -> None:
        """Nobody listens."""

    def find_value(self, value_type: type[Any]) -> Any:
        return None

    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        raise Unavailable(f"{self.tool_name} calls {tool}, which needs a runtime: use `await runtime.call(...)`.")

    async def open_store(self) -> Any:
        raise Unavailable(f"{self.tool_name} needs a store, and so a runtime: use `await runtime.call(...)`.")

    def set_active_space(self, space: str | None) -> None:
        raise Unavailable(f"{self.tool_name} enters a space, which needs a runtime: use `await runtime.call(...)`.")
