"""Defining tools: the decorator `tool`, and its relatives for work that is done elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from math import inf
from os import PathLike
from types import FrameType
from typing import Any, ParamSpec, TypeAlias, TypeVar, Unpack, is_typeddict, overload

from surehand.core.client import ClientHandler, ReplyMode
from surehand.core.description import DescriptionSource
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError
from surehand.core.facets import ToolKind
from surehand.core.handler import FunctionHandler, takes_single_argument
from surehand.core.names import is_legal_name, sanitize_name
from surehand.core.raw_schema import RawParameters
from surehand.core.schema import Parameters, TypedParameters, to_pydantic_typed_dict
from surehand.core.signature import Signature, source_location
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions, build_facets

P = ParamSpec("P")
R = TypeVar("R")
DescriptionLike: TypeAlias = str | PathLike[str]
"""A description, or the text file beside the tool that holds it."""
ParametersLike: TypeAlias = type | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LazyTool:
    """A tool whose definition is made when the runtime starts."""

    name: str
    factory: Callable[[], Any | Awaitable[Any]]

    async def resolve(self) -> Tool[..., Any]:
        """Make the tool, once."""
        made = self.factory()
        made = await made if inspect.isawaitable(made) else made
        found = made if isinstance(made, Tool) else tool(name=self.name)(made) if callable(made) else None
        if found is None:
            raise DefinitionError(
                f"The factory of {self.name} gave {type(made).__name__}.",
                fix="return a tool or a function.",
                where=source_location(self.factory),
            )
        return found if found.name == self.name else found.evolve(name=self.name)


class _ToolDecorator:
    """`tool`, the decorator; see its methods for tools without a function."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: DescriptionLike | None = None,
        parameters: ParametersLike = None,
        **options: Unpack[ToolOptions],
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: DescriptionLike | None = None,
        parameters: ParametersLike = None,
        **options: Unpack[ToolOptions],
    ) -> Any:
        """Make a function a tool; name, description and parameters come from the function unless given."""
        namespace = _local_namespace(function)
        make = partial(
            _tool_from_function,
            name=name,
            description=description,
            parameters=parameters,
            options=options,
            namespace=namespace,
        )
        return make if function is None else make(function)

    def client(
        self,
        name: str,
        description: DescriptionLike,
        *,
        parameters: ParametersLike = None,
        reply: ReplyMode = "none",
        default: Any = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """A tool that runs in a browser or with a person: `reply` says whether and how the answer is waited for."""
        if reply not in ("none", "wait", "later"):
            raise DefinitionError(f"Unknown reply {reply!r}.", fix="use none, wait or later.", where=_caller_location())
        options.setdefault("intent", "render")
        limit = options.get("timeout", 30.0)
        patience = (parse_duration(limit) or inf) if isinstance(limit, (int, float, str)) else 30.0
        handler = ClientHandler(name, reply, default=default, timeout=patience, request=options.get("display"))
        return _tool_without_function("client", name, description, parameters, options, handler)

    def external(
        self,
        name: str,
        description: DescriptionLike,
        *,
        parameters: ParametersLike = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """A tool that another service works on; the result arrives later."""
        return _tool_without_function("external", name, description, parameters, options, ClientHandler(name, "later"))

    def hosted(
        self,
        name: str,
        description: DescriptionLike = "",
        *,
        options: Mapping[str, Any],
        parameters: ParametersLike = None,
        **facets: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """A tool that the model's own provider runs; `options` says for each provider how to ask for it."""
        facets["provider_options"] = options
        return _tool_without_function("hosted", name, description or name, parameters, facets, None)

    def provided(
        self,
        name: str,
        description: DescriptionLike = "",
        *,
        parameters: ParametersLike = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """A tool whose work a `Provider` does: for what a provider's `tools()` returns."""
        return _tool_without_function("provided", name, description or name, parameters, options, None)

    def lazy(self, name: str, factory: Callable[[], Any | Awaitable[Any]]) -> LazyTool:
        """A tool whose definition, sync or async, is made once, when the runtime starts."""
        return LazyTool(name, factory)


tool = _ToolDecorator()


def _local_namespace(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What a function inside another one sees there, so that string annotations can name local types."""
    frame, names = _calling_frame(), dict[str, Any]()
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back  # the body of a class: its methods see what is around it
    return names or None


def _caller_location() -> str:
    frame = _calling_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _calling_frame() -> FrameType | None:
    """The frame that called into this module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None,
    description: DescriptionLike | None,
    parameters: ParametersLike,
    options: ToolOptions,
    namespace: dict[str, Any] | None,
) -> Tool[..., Any]:
    place = _caller_location() if isinstance(function, type) else source_location(function)
    if not callable(function):
        raise DefinitionError(
            f"{function!r} cannot be called.",
            fix="decorate a function, or a class that can be called; put @staticmethod and @classmethod above @tool.",
            where=place or _caller_location(),
        )
    if isinstance(function, type):
        return _tool_from_class(function, name=name, description=description, options=options, where=place)
    title = name or str(getattr(function, "__name__", type(function).__name__))
    _validate_name(title, place)
    if not any(isinstance(hint, str) for hint in getattr(function, "__annotations__", {}).values()):
        namespace = None  # only string annotations need it, and it keeps a whole frame's values alive
    signature = Signature(function, namespace=namespace, used_types=options.get("use"))
    if parameters is None:
        taken: Parameters = TypedParameters(signature.build_typed_dict, where=place)
        handler: Any = FunctionHandler(function, signature)
    else:
        taken = build_parameters(parameters, place)
        handler = _SeparateParametersHandler(function, signature, taken)
    return _build_tool(
        "function", title, DescriptionSource(description, function, title), taken, handler, options, place, function,
        partial(_tool_from_function, name=name, description=description, parameters=parameters, options=options,
                namespace=namespace),
    )  # fmt: skip


class _SeparateParametersHandler(FunctionHandler):
    """A function whose parameters are given separately; whether it takes them whole is known once both compile."""

    def __init__(self, function: Callable[..., Any], signature: Signature, parameters: Parameters) -> None:
        super().__init__(function, signature)
        self._parameters = parameters

    def compile(self) -> Any:
        self._parameters.compile()
        self._single_argument = takes_single_argument(self.signature, self._parameters.argument_names)
        if (
            isinstance(self._parameters, RawParameters)
            and not self._single_argument
            and not self.signature.has_var_keyword
        ):
            self._parameters.restrict_names(
                self.signature.required_names, {p.name for p in self.signature.model_parameters}
            )
        return super().compile()


def _tool_from_class(
    cls: type, *, name: str | None, description: DescriptionLike | None, options: ToolOptions, where: str
) -> Tool[..., Any]:
    """A class whose fields are the parameters and whose `__call__` (or `run`) is the work."""
    method = next((m for m in ("__call__", "run") if callable(cls.__dict__.get(m))), None)
    if method is None:
        raise DefinitionError(
            f"{cls.__name__} has neither __call__ nor run.", fix="add `async def run(self): ...`.", where=where
        )
    work = cls.__dict__[method]
    title = name or cls.__name__
    _validate_name(title, where)
    signature = Signature(work, used_types=options.get("use"))
    handler = FunctionHandler(work, signature, single_argument=True)
    doc = inspect.cleandoc(cls.__doc__ or "")
    doc = "" if doc.startswith(f"{cls.__name__}(") else doc  # what a dataclass without a docstring is given
    told = DescriptionSource(description or doc or None, None, title)
    return _build_tool(
        "function", title, told, build_parameters(cls, where), handler, options, source_location(work), cls, None
    )


def _tool_without_function(
    kind: ToolKind,
    name: str,
    description: DescriptionLike,
    parameters: ParametersLike,
    options: ToolOptions,
    handler: Any,
) -> Tool[..., Any]:
    place = _caller_location()
    _validate_name(name, place)
    taken = build_parameters({} if parameters is None else parameters, place)
    return _build_tool(
        kind, name, DescriptionSource(description, None, name), taken, handler, options, place, None, None
    )


def build_parameters(source: ParametersLike, where: str = "") -> Parameters:
    """Parameters from a pydantic model, a dataclass, a TypedDict or a JSON Schema."""
    if isinstance(source, Mapping):
        return RawParameters(source, where=where)
    if is_typeddict(source) or hasattr(source, "__total__"):
        return TypedParameters(lambda: to_pydantic_typed_dict(source), where=where)
    if isinstance(source, type) and (is_dataclass(source) or hasattr(source, "model_fields")):
        return TypedParameters(lambda: source, where=where)
    raise DefinitionError(
        f"{source!r} does not describe parameters.",
        fix="give a pydantic model, a dataclass, a TypedDict or a JSON Schema.",
        where=where,
    )


def _validate_name(name: str, where: str) -> None:
    if not is_legal_name(str(name)):
        raise DefinitionError(
            f"{name!r} is no name for a tool.",
            fix=f"use letters, digits, `_` and `-`, for example name={sanitize_name(str(name))!r}.",
            where=where,
        )


def _build_tool(
    kind: ToolKind,
    name: str,
    description: DescriptionSource,
    parameters: Parameters,
    handler: Any,
    options: ToolOptions,
    where: str,
    function: Callable[..., Any] | None,
    rebind: Callable[..., Tool[..., Any]] | None,
) -> Tool[..., Any]:
    facets = build_facets(options, kind, where)
    return Tool(name, description, parameters, handler, kind, function, *facets, where, rebind)
