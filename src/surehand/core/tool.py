"""A tool: a name, a description, parameters and a handler. Also how a tool runs without a runtime (`Tool.run`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from time import time
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from surehand.core.approval_binding import build_approval_binding
from surehand.core.call import Arguments, Call, Principal
from surehand.core.canonical_json import json_digest
from surehand.core.client import ClientHandler
from surehand.core.clock import Clock
from surehand.core.context import CURRENT_CALL, ToolListing
from surehand.core.description import DescriptionSource
from surehand.core.errors import DefinitionError, InvalidArguments, Unavailable
from surehand.core.facets import CallLimits, Lifecycle, Presentation, Safety, ToolKind
from surehand.core.handler import FunctionHandler, Handler, StartHandler
from surehand.core.ids import new_id
from surehand.core.invoke import build_invoker, failed_from_error
from surehand.core.names import is_legal_name, sanitize_name
from surehand.core.outcome import CallMeta, Outcome, attach_origin
from surehand.core.schema import Parameters
from surehand.core.strict_json import decode_utf8
from surehand.core.threads import HandlerThreads
from surehand.core.tool_options import ToolOptions, change_facets

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
    """None if a provider, or the model's own provider, runs the tool."""
    kind: ToolKind = "function"
    function: Callable[P, R] | None = None
    safety: Safety = field(default_factory=Safety)
    limits: CallLimits = field(default_factory=CallLimits)
    presentation: Presentation = field(default_factory=Presentation)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    where: str = ""
    """File and line of the definition."""
    rebind: Callable[[Callable[..., Any]], Tool[..., Any]] | None = field(default=None, compare=False)
    """Defines the same tool for a bound method."""
    given_name: str = ""
    """The name as the developer wrote it, if it had characters that no name may have; else empty."""
    other_names: frozenset[str] = frozenset()
    """Names that policy rules also know the tool by, though it cannot be called by them: those before a renaming."""

    @property
    def has_changed_name(self) -> bool:
        """Whether the name is the nearest legal one to what the developer wrote."""
        return bool(self.given_name) and sanitize_name(self.given_name) == self.name

    @property
    def provider_name(self) -> str:
        """The name by which the tool's provider knows it: as its developer wrote it."""
        return self.given_name if self.has_changed_name else self.name

    @property
    def description(self) -> str:
        """The description for models."""
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
        """Whether a call may run twice without harm."""
        return self.safety.repeatable

    @property
    def category(self) -> str:
        """The category, such as `file` or `network`."""
        return self.presentation.category

    @property
    def audience(self) -> str:
        """Who may use the tool: `model`, `user` or `all`."""
        return self.presentation.audience

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the tool."""
        return self.presentation.aliases

    @property
    def visible(self) -> bool:
        """Whether calls of the tool are shown in the active space."""
        return self.presentation.visible

    def compile(self) -> StartHandler | None:
        """Prepare parameters and handler, once. Raises `DefinitionError`, so that no call has to."""
        # Computed values go directly into `__dict__`: a frozen dataclass refuses every assignment to an attribute.
        if "start" not in self.__dict__:
            self.parameters.compile()
            self.__dict__["start"] = self.handler.compile() if self.handler else None
        return self.__dict__["start"]  # type: ignore[no-any-return]

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the parameters by name. Policy and confirmation judge them like given arguments."""
        if "_defaults" not in self.__dict__:
            properties = self.schema.get("properties", {}).items()
            schema_defaults = {
                name: field["default"]
                for name, field in properties
                if isinstance(field, dict) and "default" in field  # `true` is a valid schema too
            }
            self.__dict__["_defaults"] = schema_defaults | self.handler_defaults
        return self.__dict__["_defaults"]  # type: ignore[no-any-return]

    @property
    def handler_defaults(self) -> dict[str, Any]:
        """The defaults that the handler itself fills in; those of a raw schema only describe it, and are not sent."""
        return dict(getattr(self.handler, "defaults", {}))

    @property
    def definition_digest(self) -> str:
        """A digest of everything in the definition that cached results depend on."""
        if "_definition" not in self.__dict__:
            effects = sorted(self.safety.required_effects)
            self.__dict__["_definition"] = json_digest(
                self.name, self.description, self.schema, effects, self.presentation.version
            )
        return self.__dict__["_definition"]  # type: ignore[no-any-return]

    @property
    def approval_binding(self) -> str:
        """The parts of the definition that an approval is bound to, beside the name.

        The description counts only for a tool that a provider runs: it is all that a person knows of what it does.
        """
        if "_approval_binding" not in self.__dict__:
            description = self.description if self.handler is None else None
            self.__dict__["_approval_binding"] = build_approval_binding(
                self.schema, self.safety.required_effects, self.presentation.version, description
            )
        return self.__dict__["_approval_binding"]  # type: ignore[no-any-return]

    def is_bound_by(self, stored_binding: str) -> bool:
        """Whether an approval with a stored binding holds for this definition."""
        return stored_binding in (self.approval_binding, self.earlier_approval_binding)

    @property
    def earlier_approval_binding(self) -> str:
        """The binding of approvals in stores that an earlier version wrote: the digest of the whole definition."""
        return self.definition_digest

    def keep_definition_digest(self, original: Tool[..., Any]) -> None:
        """Take over digest and approval binding of the tool that this one stands for."""
        self.__dict__["_definition"] = original.definition_digest
        self.__dict__["_approval_binding"] = original.approval_binding

    def require_runner(self) -> None:
        """Raise `DefinitionError` for a tool without a provider that has no handler either, so that no call can run.

        The model's own provider runs a hosted tool.
        """
        if self.handler is None and self.kind != "hosted":
            raise DefinitionError(
                f"{self.name} has no handler, and no provider offers it: no call of it can run.",
                fix="let a provider's tools() return it, or define it with @tool.",
                where=self.where,
            )

    def validate_arguments(self, arguments: Arguments) -> dict[str, Any]:
        """Validated arguments for the handler, from an object, JSON text or nothing; raises `InvalidArguments`."""
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
        """Validate the arguments and run the handler without a runtime: no policy, no limits, nothing recorded."""
        start = self.compile()
        if start is None:
            raise DefinitionError(f"{self.name} has no handler of its own.", fix="call it through a Runtime.")
        call = StandaloneCall(self.name, {}, self.kind)
        outcome: Outcome
        try:
            call.arguments = self.validate_arguments(arguments)
        except InvalidArguments as error:
            outcome = failed_from_error(error).evolve(executed=False)
        else:
            # Reset in any case: the caller's own task goes on with the same context variables.
            token = CURRENT_CALL.set(call)
            try:
                outcome = await build_invoker(self.name, start)(call)
            finally:
                CURRENT_CALL.reset(token)
        attach_origin(outcome, call)
        return outcome

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.function is None:
            raise TypeError(f"{self.name} has no function to call. Use `await runtime.call({self.name!r}, ...)`.")
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type) -> Tool[Q, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Bind a tool that is defined on a class to an instance, as Python binds a method."""
        if instance is None or self.rebind is None or self.function is None:
            return self
        return self.rebind(self.function.__get__(instance, owner))

    def evolve(
        self, *, use: Mapping[str, Any] | None = None, description: str | PathLike[str] | None = None, **changes: Any
    ) -> Tool[P, R]:
        """A further instance of the tool: `read.evolve(name="read_b", use={"sandbox": sandbox_b}, confirm=True)`.

        Args:
            use: values for parameters that `use(...)` marks, instead of those that scopes offer.
            changes: the name, options of `tool(...)`, or fields of this class. The parameters stay as they are.
        """
        fields = {name: value for name, value in changes.items() if name in self.__dataclass_fields__}
        options = {name: value for name, value in changes.items() if name not in fields}
        if "name" in fields and not is_legal_name(fields["name"]):
            fields |= {"name": sanitize_name(fields["name"]), "given_name": fields["name"]}
        if fields.get("name", self.name) != self.name:
            fields.setdefault("other_names", self.other_names | {self.name})
        if use is not None:
            fields["handler"] = self._handler_with_values(use)
        if description is not None:
            fields["description_source"] = DescriptionSource(description, self.function, fields.get("name", self.name))
        if options:
            own = (self.safety, self.limits, self.presentation, self.lifecycle)
            groups = change_facets(own, cast(ToolOptions, options), self.kind, self.where)
            fields |= dict(zip(("safety", "limits", "presentation", "lifecycle"), groups, strict=True))
        if isinstance(self.handler, ClientHandler) and "handler" not in fields:
            limits = fields.get("limits", self.limits)
            presentation = fields.get("presentation", self.presentation)
            fields["handler"] = self.handler.with_facets(fields.get("name", self.name), limits, presentation)
        if self.rebind is not None and (use is not None or description is not None or changes):
            rebind = self.rebind
            fields["rebind"] = lambda function: rebind(function).evolve(use=use, description=description, **changes)
        return replace(self, **fields)

    def _handler_with_values(self, values: Mapping[str, Any]) -> Handler:
        """The handler with fixed values for parameters that `use(...)` marks."""
        if not isinstance(self.handler, FunctionHandler):
            raise DefinitionError(
                f"{self.name} has no function, so `use` has no effect.", fix="remove it.", where=self.where
            )
        return self.handler.with_used_values(self.name, values)

    def with_description(self, description: str | PathLike[str]) -> Tool[P, R]:
        """A copy with another description."""
        return replace(self, description_source=DescriptionSource(description, self.function, self.name))

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.kind})>"


# A list of at most one item, made on first use: a program that runs no tool without a runtime starts no threads.
_shared_threads: list[HandlerThreads] = []
os.register_at_fork(after_in_child=_shared_threads.clear)  # after a fork, only the forking thread exists


class StandaloneCall:
    """A call of a tool that runs without a runtime."""

    principal = Principal()
    attempt = 1
    cancelled = False
    is_standalone = True
    workspace = ""
    memory_dir: str | None = None
    session_dir: str | None = None

    def __init__(self, tool_name: str, arguments: dict[str, Any], kind: str = "") -> None:
        self.tool_name = tool_name
        self.arguments = arguments
        self.kind = kind
        self.state: dict[str, Any] = {}
        self.id = new_id()
        self._started_at = time()

    @property
    def call(self) -> Call:
        return Call(self.tool_name, self.arguments, id=self.id)

    def build_meta(self, outcome: Outcome) -> CallMeta:
        """Name the call; without a runtime nothing else is measured."""
        return CallMeta(self.id, self.tool_name, self.kind, started_at=self._started_at)

    @property
    def threads(self) -> HandlerThreads:
        if not _shared_threads:
            _shared_threads.append(HandlerThreads())
        return _shared_threads[0]

    @property
    def clock(self) -> Clock:
        return Clock()

    def report(self, update: Mapping[str, Any]) -> None:
        """Ignore progress: without a runtime there are no listeners."""

    def find_value(self, value_type: type[Any]) -> Any:
        return None

    def find_tool(self, name: str) -> ToolListing | None:
        return None

    def list_tools(self) -> Sequence[ToolListing]:
        return ()

    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        raise Unavailable(f"{self.tool_name} calls {tool}, which needs a runtime: use `await runtime.call(...)`.")

    async def open_store(self) -> Any:
        raise Unavailable(f"{self.tool_name} needs a store, and so a runtime: use `await runtime.call(...)`.")

    def set_active_space(self, space: str | None) -> None:
        raise Unavailable(f"{self.tool_name} enters a space, which needs a runtime: use `await runtime.call(...)`.")

    async def enter_space(self, space: str | None) -> None:
        self.set_active_space(space)
