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

from surehand.core.client import ClientHandler, Reply
from surehand.core.description import Description
from surehand.core.durations import seconds
from surehand.core.errors import DefinitionError
from surehand.core.facets import Kind
from surehand.core.handler import FunctionHandler, takes_whole
from surehand.core.names import is_legal, sanitised
from surehand.core.options import Options, facets_of
from surehand.core.rawschema import RawParameters
from surehand.core.schema import Parameters, TypedParameters
from surehand.core.signature import Signature, where
from surehand.core.tool import Tool
from surehand.core.typeddicts import portable

P = ParamSpec("P")
R = TypeVar("R")
Prose: TypeAlias = str | PathLike[str]
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
                where=where(self.factory),
            )
        return found if found.name == self.name else found.evolve(name=self.name)


class _Define:
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
        description: Prose | None = None,
        parameters: ParametersLike = None,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: Prose | None = None,
        parameters: ParametersLike = None,
        **options: Unpack[Options],
    ) -> Any:
        """Make a function a tool; name, description and parameters come from the function unless given."""
        namespace = _local_names(function)
        make = partial(
            _from_function,
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
        description: Prose,
        *,
        parameters: ParametersLike = None,
        reply: Reply = "none",
        default: Any = None,
        **options: Unpack[Options],
    ) -> Tool[..., Any]:
        """A tool that runs in a browser or with a person: `reply` says whether and how the answer is waited for."""
        if reply not in ("none", "wait", "later"):
            raise DefinitionError(f"Unknown reply {reply!r}.", fix="use none, wait or later.", where=_caller())
        options.setdefault("intent", "render")
        limit = options.get("timeout", 30.0)
        patience = (seconds(limit) or inf) if isinstance(limit, (int, float, str)) else 30.0
        handler = ClientHandler(name, reply, default=default, timeout=patience, request=options.get("display"))
        return _without_function("client", name, description, parameters, options, handler)

    def external(
        self,
        name: str,
        description: Prose,
        *,
        parameters: ParametersLike = None,
        **options: Unpack[Options],
    ) -> Tool[..., Any]:
        """A tool that another service works on; the result arrives later."""
        return _without_function("external", name, description, parameters, options, ClientHandler(name, "later"))

    def hosted(
        self,
        name: str,
        description: Prose = "",
        *,
        options: Mapping[str, Any],
        parameters: ParametersLike = None,
        **facets: Unpack[Options],
    ) -> Tool[..., Any]:
        """A tool that the model's own provider runs; `options` says for each provider how to ask for it."""
        facets["provider_options"] = options
        return _without_function("hosted", name, description or name, parameters, facets, None)

    def provided(
        self,
        name: str,
        description: Prose = "",
        *,
        parameters: ParametersLike = None,
        **options: Unpack[Options],
    ) -> Tool[..., Any]:
        """A tool whose work a `Provider` does: for what a provider's `tools()` returns."""
        return _without_function("provided", name, description or name, parameters, options, None)

    def lazy(self, name: str, factory: Callable[[], Any | Awaitable[Any]]) -> LazyTool:
        """A tool whose definition, sync or async, is made once, when the runtime starts."""
        return LazyTool(name, factory)


tool = _Define()


def _local_names(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What a function inside another one sees there, so that string annotations can name local types."""
    frame, names = _frame_outside(), dict[str, Any]()
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back  # the body of a class: its methods see what is around it
    return names or None


def _caller() -> str:
    frame = _frame_outside()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _frame_outside() -> FrameType | None:
    """The frame that called into this module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _from_function(
    function: Callable[..., Any],
    *,
    name: str | None,
    description: Prose | None,
    parameters: ParametersLike,
    options: Options,
    namespace: dict[str, Any] | None,
) -> Tool[..., Any]:
    place = _caller() if isinstance(function, type) else where(function)
    if not callable(function):
        raise DefinitionError(
            f"{function!r} cannot be called.",
            fix="decorate a function, or a class that can be called; put @staticmethod and @classmethod above @tool.",
            where=place or _caller(),
        )
    if isinstance(function, type):
        return _from_class(function, name=name, description=description, options=options, place=place)
    title = name or str(getattr(function, "__name__", type(function).__name__))
    _check_name(title, place)
    if not any(isinstance(hint, str) for hint in getattr(function, "__annotations__", {}).values()):
        namespace = None  # only string annotations need it, and it keeps a whole frame's values alive
    signature = Signature(function, namespace=namespace, uses=options.get("use"))
    if parameters is None:
        taken: Parameters = TypedParameters(signature.as_type, where=place)
        handler: Any = FunctionHandler(function, signature)
    else:
        taken = parameters_of(parameters, place)
        handler = _Separate(function, signature, taken)
    return _make(
        "function", title, Description(description, function, title), taken, handler, options, place, function,
        partial(_from_function, name=name, description=description, parameters=parameters, options=options,
                namespace=namespace),
    )  # fmt: skip


class _Separate(FunctionHandler):
    """A function whose parameters are given separately; whether it takes them whole is known once both compile."""

    def __init__(self, function: Callable[..., Any], signature: Signature, parameters: Parameters) -> None:
        super().__init__(function, signature)
        self._parameters = parameters

    def compile(self) -> Any:
        self._parameters.compile()
        self._whole = takes_whole(self.signature, self._parameters.names)
        if isinstance(self._parameters, RawParameters) and not self._whole and not self.signature.open:
            self._parameters.narrow(self.signature.needed, {p.name for p in self.signature.fields})
        return super().compile()


def _from_class(
    cls: type, *, name: str | None, description: Prose | None, options: Options, place: str
) -> Tool[..., Any]:
    """A class whose fields are the parameters and whose `__call__` (or `run`) is the work."""
    method = next((m for m in ("__call__", "run") if callable(cls.__dict__.get(m))), None)
    if method is None:
        raise DefinitionError(
            f"{cls.__name__} has neither __call__ nor run.", fix="add `async def run(self): ...`.", where=place
        )
    work = cls.__dict__[method]
    title = name or cls.__name__
    _check_name(title, place)
    signature = Signature(work, uses=options.get("use"))
    handler = FunctionHandler(work, signature, whole=True)
    doc = inspect.cleandoc(cls.__doc__ or "")
    doc = "" if doc.startswith(f"{cls.__name__}(") else doc  # what a dataclass without a docstring is given
    told = Description(description or doc or None, None, title)
    return _make("function", title, told, parameters_of(cls, place), handler, options, where(work), cls, None)


def _without_function(
    kind: Kind, name: str, description: Prose, parameters: ParametersLike, options: Options, handler: Any
) -> Tool[..., Any]:
    place = _caller()
    _check_name(name, place)
    taken = parameters_of({} if parameters is None else parameters, place)
    return _make(kind, name, Description(description, None, name), taken, handler, options, place, None, None)


def parameters_of(given: ParametersLike, place: str = "") -> Parameters:
    """Parameters from a pydantic model, a dataclass, a TypedDict or a JSON Schema."""
    if isinstance(given, Mapping):
        return RawParameters(given, where=place)
    if is_typeddict(given) or hasattr(given, "__total__"):
        return TypedParameters(lambda: portable(given), where=place)
    if isinstance(given, type) and (is_dataclass(given) or hasattr(given, "model_fields")):
        return TypedParameters(lambda: given, where=place)
    raise DefinitionError(
        f"{given!r} does not describe parameters.",
        fix="give a pydantic model, a dataclass, a TypedDict or a JSON Schema.",
        where=place,
    )


def _check_name(name: str, place: str) -> None:
    if not is_legal(str(name)):
        raise DefinitionError(
            f"{name!r} is no name for a tool.",
            fix=f"use letters, digits, `_` and `-`, for example name={sanitised(str(name))!r}.",
            where=place,
        )


def _make(
    kind: Kind,
    name: str,
    told: Description,
    parameters: Parameters,
    handler: Any,
    options: Options,
    place: str,
    function: Callable[..., Any] | None,
    rebind: Callable[..., Tool[..., Any]] | None,
) -> Tool[..., Any]:
    facets = facets_of(options, kind, place)
    return Tool(name, told, parameters, handler, kind, function, *facets, place, rebind)
