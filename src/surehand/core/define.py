"""Definition of tools: the decorator `tool`, and its methods for tools whose work is not a Python function.

Names and signatures are checked here, when the tool is defined. Types are compiled later, when the runtime starts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from os import PathLike
from types import FrameType
from typing import Any, ParamSpec, TypeAlias, TypeVar, Unpack, is_typeddict, overload

from surehand.core.client import ClientHandler, ReplyMode
from surehand.core.description import DescriptionSource
from surehand.core.errors import DefinitionError
from surehand.core.facets import ToolKind
from surehand.core.handler import FunctionHandler, takes_single_argument
from surehand.core.names import is_legal_name, sanitized_tool_name
from surehand.core.provider import Provider
from surehand.core.raw_schema import RawParameters, is_json_schema
from surehand.core.schema import Parameters, TypedParameters, to_pydantic_typed_dict
from surehand.core.signature import Signature, source_location
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions, build_facets

P = ParamSpec("P")
R = TypeVar("R")
DescriptionLike: TypeAlias = str | PathLike[str]
"""A description, or the path of a text file that holds it, relative to the module of the tool."""
ParametersLike: TypeAlias = type | Mapping[str, Any] | None
BuildServerProviders: TypeAlias = "Callable[[Sequence[ServerTool]], list[Provider]]"
"""Builds the providers of tools that MCP servers run. It is passed in from above: core knows no MCP servers."""


@dataclass(frozen=True, slots=True)
class InitContext:
    """What a lazy tool's factory is told about the runtime, if it takes an argument."""

    working_dir: str
    """The folder that relative file paths refer to."""


_NO_INIT = InitContext(".")


@dataclass(frozen=True, slots=True)
class LazyTool:
    """A tool whose factory the runtime calls when it starts."""

    name: str
    factory: Callable[..., Any | Awaitable[Any]]

    async def resolve(self, init: InitContext = _NO_INIT) -> Tool[..., Any]:
        """Call the factory and return its tool under the name of this one; raises `DefinitionError`."""
        try:
            product = self.factory(init) if _takes_argument(self.factory) else self.factory()
            if inspect.isawaitable(product):
                product = await product
        except DefinitionError as error:
            problem = f"The factory of {self.name} failed: {error.problem}"
            raise DefinitionError(problem, fix=error.fix, where=error.where) from error
        except Exception as error:
            first_line = next(iter(str(error).splitlines()), "")
            problem = f"The factory of {self.name} failed: {type(error).__name__}: {first_line}".rstrip(": ")
            raise DefinitionError(problem, where=source_location(self.factory)) from error
        if isinstance(product, Tool):
            name = sanitized_tool_name(self.name) or self.name
            given_name = "" if name == self.name else self.name
            return product if product.name == name else product.evolve(name=name, given_name=given_name)
        if callable(product):
            return tool(name=self.name)(product)
        raise DefinitionError(
            f"The factory of {self.name} returned {type(product).__name__}.",
            fix="return a tool or a function.",
            where=source_location(self.factory),
        )


def _takes_argument(factory: Callable[..., Any]) -> bool:
    """Whether a factory must be given the init context: it has a positional parameter without a default."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    return any(each.kind in positional and each.default is each.empty for each in parameters)


class ToolDecorator:
    """The type of the decorator `tool`. Its methods define tools without a function."""

    def __init__(self, build_server_providers: BuildServerProviders | None = None) -> None:
        self._build_server_providers = build_server_providers

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
        """Turn a function into a tool. Name, description and parameters are those of the function unless given.

        With a name and `mcp_config` it is a tool without a function as well: the server's tool of that name runs.
        """
        build = partial(
            _tool_from_function,
            name=name,
            description=description,
            parameters=parameters,
            options=options,
            namespace=_local_namespace(),
        )
        if function is not None:
            return build(function)
        if name is None or options.get("mcp_config") is None:
            return build
        return _server_tool(name, description, parameters, options, build, self._build_server_providers)

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
        """A tool that a browser or a person runs: `reply` says whether the call waits for the answer.

        Unanswered calls end as `expired` after `expires`, or after `timeout`. With `reply="wait"`, `timeout` is how
        long the caller waits.
        """
        if reply not in ("none", "wait", "later"):
            raise DefinitionError(f"Unknown reply {reply!r}.", fix="use none, wait or later.", where=_caller_location())
        options.setdefault("intent", "render")
        handler = ClientHandler(name, reply, default)
        return _tool_without_function("client", name, description, parameters, options, handler)

    def external(
        self,
        name: str,
        description: DescriptionLike,
        *,
        parameters: ParametersLike = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """A tool whose result another service sends later; a call ends as `expired` after `expires`, or `timeout`."""
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
        """A tool that the model's own provider runs; `options` maps a provider to the entry that its API expects."""
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
        """A tool that a `Provider` invokes; a provider's `tools()` returns these."""
        return _tool_without_function("provided", name, description or name, parameters, options, None)

    def lazy(self, name: str, factory: Callable[..., Any | Awaitable[Any]]) -> LazyTool:
        """A tool whose sync or async factory the runtime calls once, when it starts.

        A factory that takes an argument is given the init context, with the runtime's `working_dir`.
        """
        return LazyTool(name, factory)


@dataclass(frozen=True, eq=False, repr=False)
class ServerTool(Tool[..., Any]):
    """A tool that the MCP server of its `mcp_config` runs. Called with a function, it decorates that function."""

    decorate: Callable[[Callable[..., Any]], Tool[..., Any]] | None = None
    has_description: bool = False
    """Whether the developer gave a description; otherwise the server's is used."""
    has_parameters: bool = False
    """Whether the developer gave parameters; otherwise the server's are used."""
    build_providers: BuildServerProviders | None = None
    """Builds the provider that runs the tool."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # `tool(name=..., mcp_config=...)` is a tool, or a decorator if a function follows: only the call shows which.
        if self.decorate is not None and len(args) == 1 and not kwargs and callable(args[0]):
            return self.decorate(args[0])
        return super().__call__(*args, **kwargs)


def _server_tool(
    name: str,
    description: DescriptionLike | None,
    parameters: ParametersLike,
    options: ToolOptions,
    decorate: Callable[[Callable[..., Any]], Tool[..., Any]],
    build_providers: BuildServerProviders | None,
) -> ServerTool:
    tool = _tool_without_function("mcp", name, description or name, parameters, options, None)
    fields = {field.name: getattr(tool, field.name) for field in dataclass_fields(Tool)}
    return ServerTool(
        **fields,
        decorate=decorate,
        has_description=description is not None,
        has_parameters=parameters is not None,
        build_providers=build_providers,
    )


tool = ToolDecorator()
"""The decorator for tools of this package, none of which an MCP server runs; `surehand.tool` knows MCP servers too."""


def _local_namespace() -> dict[str, Any] | None:
    """The local variables where a tool is defined, so that its string annotations can name local types."""
    frame = _calling_frame()
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function; the bodies of classes do not have this flag
            break
        frame = frame.f_back  # annotations in a class body can also name types of the function around the class
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
    where = _caller_location() if isinstance(function, type) else source_location(function)
    if not callable(function):
        raise DefinitionError(
            f"{function!r} is not callable.",
            fix="decorate a function, or a class that can be called; put @staticmethod and @classmethod above @tool.",
            where=where or _caller_location(),
        )
    if isinstance(function, type):
        return _tool_from_class(function, name=name, description=description, options=options, where=where)
    tool_name = name or str(getattr(function, "__name__", type(function).__name__))
    _check_name(tool_name, where, is_given=bool(name))
    if not any(isinstance(hint, str) for hint in getattr(function, "__annotations__", {}).values()):
        namespace = None  # only string annotations need it, and it keeps all local values of the frame alive
    signature = Signature(function, namespace=namespace, used_types=options.get("use"), where=where)
    if parameters is None:
        tool_parameters: Parameters = TypedParameters(signature.build_typed_dict, where=where)
        handler: Any = FunctionHandler(function, signature)
    else:
        _refuse_schema_without_keywords(parameters, where)
        tool_parameters = build_parameters(parameters, where)
        handler = _SeparateParametersHandler(function, signature, tool_parameters)
    rebind = partial(
        _tool_from_function,
        name=name,
        description=description,
        parameters=parameters,
        options=options,
        namespace=namespace,
    )
    source = DescriptionSource(description, function, tool_name)
    return _build_tool(
        "function", tool_name, source, tool_parameters, handler, options, where, function=function, rebind=rebind
    )


class _SeparateParametersHandler(FunctionHandler):
    """Handler of a function whose parameters are given apart from its signature.

    The function takes them by name, or all of them as one argument; both have to be compiled to know which.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature, parameters: Parameters) -> None:
        super().__init__(function, signature)
        self._parameters = parameters

    def compile(self) -> Any:
        self._parameters.compile()
        self._single_argument = takes_single_argument(self.signature, self._parameters.argument_names)
        takes_names = not self._single_argument and not self.signature.has_var_keyword
        if takes_names and isinstance(self._parameters, RawParameters):
            known_names = {parameter.name for parameter in self.signature.model_parameters}
            self._parameters.restrict_names(self.signature.required_names, known_names)
        return super().compile()


def _tool_from_class(
    cls: type, *, name: str | None, description: DescriptionLike | None, options: ToolOptions, where: str
) -> Tool[..., Any]:
    """A tool from a class: its fields are the parameters, and its method `__call__` or `run` is the handler."""
    method_name = next((method for method in ("__call__", "run") if callable(cls.__dict__.get(method))), None)
    if method_name is None:
        raise DefinitionError(
            f"{cls.__name__} has neither __call__ nor run.", fix="add `async def run(self): ...`.", where=where
        )
    method = cls.__dict__[method_name]
    tool_name = name or cls.__name__
    _check_name(tool_name, where)
    signature = Signature(method, used_types=options.get("use"))
    handler = FunctionHandler(method, signature, single_argument=True)
    docstring = inspect.cleandoc(cls.__doc__ or "")
    if docstring.startswith(f"{cls.__name__}("):  # Python generates this one for a dataclass without a docstring
        docstring = ""
    source = DescriptionSource(description or docstring or None, None, tool_name)
    parameters = build_parameters(cls, where)
    return _build_tool(
        "function", tool_name, source, parameters, handler, options, source_location(method), function=cls
    )


def _tool_without_function(
    kind: ToolKind,
    name: str,
    description: DescriptionLike,
    parameters: ParametersLike,
    options: ToolOptions,
    handler: Any,
) -> Tool[..., Any]:
    where = _caller_location()
    _check_name(name, where)
    if kind != "provided":  # a provider may pass on the schema of a service
        _refuse_schema_without_keywords(parameters, where)
    tool_parameters = build_parameters({} if parameters is None else parameters, where)
    source = DescriptionSource(description, None, name)
    return _build_tool(kind, name, source, tool_parameters, handler, options, where)


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


def _refuse_schema_without_keywords(parameters: ParametersLike, where: str) -> None:
    """Raise for names of parameters in place of a JSON Schema, which would describe a tool without parameters."""
    if not isinstance(parameters, Mapping) or is_json_schema(parameters):
        return
    unknown = next(name for name in parameters if not is_json_schema({name: parameters[name]}))
    names = ", ".join(f'"{name}": ...' for name in parameters)
    raise DefinitionError(
        f"The parameters are not a JSON Schema: {unknown!r} is no keyword of it.",
        fix=f'write {{"type": "object", "properties": {{{names}}}}}, each with a schema such as {{"type": "string"}}.',
        where=where,
    )


def _check_name(name: str, where: str, *, is_given: bool = True) -> None:
    """Raise for a name of which no legal name can be made, and for that of a lambda, which says nothing."""
    if is_legal_name(str(name)) or (is_given and sanitized_tool_name(str(name)) is not None):
        return
    raise DefinitionError(
        f"{name!r} is not a tool name.",
        fix="use letters, digits, `_` and `-`, for example name='read_file'.",
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
    *,
    function: Callable[..., Any] | None = None,
    rebind: Callable[..., Tool[..., Any]] | None = None,
) -> Tool[..., Any]:
    facets = build_facets(options, kind, where)
    if isinstance(handler, ClientHandler):
        handler = handler.with_facets(name, facets[1], facets[2])
    if is_legal_name(name):
        return Tool(name, description, parameters, handler, kind, function, *facets, where, rebind)
    legal_name = sanitized_tool_name(name) or name
    return Tool(legal_name, description, parameters, handler, kind, function, *facets, where, rebind, name)
