"""The signature of a handler: which parameters a model fills, and which the runtime fills (`Context`, `use`)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, NotRequired, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from surehand.core.context import Context
from surehand.core.description import parse_docstring
from surehand.core.errors import DefinitionError

T = TypeVar("T")
_NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class UseMarker:
    """The default of a parameter that `use(...)` marks."""

    value_type: type


def use(value_type: type[T]) -> T:
    """A parameter that the nearest scope fills: `sandbox: Sandbox = use(Sandbox)`."""
    return cast(T, UseMarker(value_type))


def source_location(function: Callable[..., Any]) -> str:
    """File and line of a function, as `file:line`; its module if it has no code, as built-in functions."""
    code = getattr(inspect.unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(function, "__module__", "")


class Signature:
    """The parameters of a function. Their kinds are checked at definition, their types when the runtime starts."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        namespace: Mapping[str, Any] | None = None,
        used_types: Mapping[str, type] | None = None,
        where: str | None = None,
    ) -> None:
        self.function = function
        self.where = source_location(function) if where is None else where
        self._namespace = namespace
        self._parameters = self._inspect_parameters()
        self.used_types: dict[str, type] = {
            parameter.name: parameter.default.value_type
            for parameter in self._parameters
            if isinstance(parameter.default, UseMarker)
        }
        self.used_types.update(used_types or {})
        self._type_hints: dict[str, Any] | None = None

    def _inspect_parameters(self) -> list[inspect.Parameter]:
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (ValueError, TypeError) as error:
            raise self._definition_error(
                f"{self.function!r} has no signature that Python can read.", "wrap it in a function."
            ) from error
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise self._definition_error(
                    f"`*{parameter.name}` cannot be named by a model.", "take a list: `items: list[str]`."
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise self._definition_error(
                    f"`{parameter.name}` is positional-only.", "remove the `/`: arguments come by name."
                )
        return parameters

    def _definition_error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(problem, fix=fix, where=self.where)

    @property
    def type_hints(self) -> dict[str, Any]:
        """The annotations, with string annotations resolved to types."""
        if self._type_hints is None:
            self._type_hints = self._resolve_type_hints()
        return self._type_hints

    def _resolve_type_hints(self) -> dict[str, Any]:
        # `functools.wraps` copies string annotations to a wrapper, whose module may not have the names in them.
        function = inspect.unwrap(self.function)
        target = function if hasattr(function, "__annotations__") else type(function).__call__
        try:
            return get_type_hints(target, localns=dict(self._namespace or {}), include_extras=True)
        except NameError as error:
            raise self._definition_error(
                f"A type in the signature cannot be found: {error}.",
                "import it at module level, or define it before the tool.",
            ) from error
        except (TypeError, SyntaxError, AttributeError) as error:
            raise self._definition_error(f"An annotation is not valid: {error}.", "annotate with types.") from error

    @property
    def context_parameter(self) -> str | None:
        """The name of the parameter that gets the Context, or None."""
        for name, hint in self.type_hints.items():
            if name != "return" and _is_context_hint(hint):
                return name
        return None

    @property
    def needs_context_when_standalone(self) -> bool:
        """Whether a tool that runs without a runtime gets a Context: `ctx: Context | None` gets None instead."""
        return self.context_parameter is not None and not self.is_optional(self.context_parameter)

    def is_optional(self, name: str) -> bool:
        """Whether a parameter may be None."""
        return type(None) in get_args(self.type_hints.get(name))

    @property
    def model_parameters(self) -> list[inspect.Parameter]:
        """The parameters that a model fills."""
        filled_by_runtime = {self.context_parameter, *self.used_types}
        return [
            parameter
            for parameter in self._parameters
            if parameter.name not in filled_by_runtime and parameter.kind is not parameter.VAR_KEYWORD
        ]

    @property
    def required_names(self) -> set[str]:
        """The names of the parameters without a default."""
        without_default = {parameter.name for parameter in self.model_parameters if parameter.default is _NO_DEFAULT}
        return without_default - self.field_defaults.keys()

    @property
    def has_var_keyword(self) -> bool:
        """Whether the function takes arguments of any name (`**more`)."""
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in self._parameters)

    @property
    def field_defaults(self) -> dict[str, Callable[[], Any]]:
        """Functions that make the defaults which are wrapped in pydantic's `Field`; Python cannot fill those in."""
        factories: dict[str, Callable[[], Any]] = {}
        for parameter in self.model_parameters:
            field = parameter.default
            if _is_pydantic_field(field) and not field.is_required():
                factories[parameter.name] = field.default_factory or (lambda field=field: field.default)
        return factories

    def build_typed_dict(self) -> Any:
        """A TypedDict of the parameters with their descriptions and defaults, which pydantic compiles."""
        from typing_extensions import TypedDict  # imported on first use: it is needed when the runtime starts

        descriptions = parse_docstring(inspect.getdoc(self.function)).parameters
        annotations = {}
        for parameter in self.model_parameters:
            name = parameter.name
            annotations[name] = _build_annotation(parameter, self.type_hints.get(name, Any), descriptions.get(name))
        create: Any = TypedDict  # type checkers accept only a literal name, and here it is a variable
        typed_dict = create(f"{getattr(self.function, '__name__', 'tool')}_parameters", annotations)
        extra = "allow" if self.has_var_keyword else "forbid"
        typed_dict.__pydantic_config__ = {"extra": extra, "arbitrary_types_allowed": True}
        return typed_dict


def _is_context_hint(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is Context or (get_origin(hint) in (Union, UnionType) and Context in get_args(hint))


def _is_pydantic_field(default: Any) -> bool:
    # A program that has not imported pydantic has no `Field`, and should not have to import it here.
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(default, fields.FieldInfo)


def _build_annotation(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    """The annotation of one key of the TypedDict: the type, the description and the default."""
    from pydantic import Field

    default = parameter.default
    if _is_pydantic_field(default):
        field = default
        default = _NO_DEFAULT if field.is_required() else field.get_default(call_default_factory=True)
        hint = Annotated[hint, *_field_without_default(field)]
    if description and not _has_description(hint):
        hint = Annotated[hint, Field(description=description)]
    if default is _NO_DEFAULT:
        return hint
    return NotRequired[Annotated[hint, Field(json_schema_extra=_schema_default(default))]]


def _field_without_default(field: Any) -> tuple[Any, ...]:
    """The parts of a `Field(...)` without its default: a field with the other attributes, and the constraints."""
    from pydantic import Field

    unset = Field().asdict()["attributes"]
    all_attributes = field.asdict()["attributes"].items()
    attributes = {name: value for name, value in all_attributes if value is not unset[name]}
    for name in ("default", "default_factory"):
        attributes.pop(name, None)
    return Field(**attributes), *field.metadata


def _has_description(hint: Any) -> bool:
    return any(getattr(extra, "description", None) for extra in getattr(hint, "__metadata__", ()))


def _schema_default(default: Any) -> dict[str, Any]:
    """The `default` of a JSON Schema; empty if JSON cannot hold the value."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return {"default": to_jsonable_python(default)}
    except PydanticSerializationError:
        return {}
