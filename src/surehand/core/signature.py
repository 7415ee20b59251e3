"""Signature: which of a function's parameters a model fills, and which the runtime does."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from surehand.core.context import Context
from surehand.core.description import parse_docstring
from surehand.core.errors import DefinitionError

T = TypeVar("T")
_NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class UseMarker:
    """The mark that `use(...)` leaves as a parameter's default."""

    value_type: type


def use(value_type: type[T]) -> T:
    """A parameter that the nearest scope fills: `sandbox: Sandbox = use(Sandbox)`."""
    return cast(T, UseMarker(value_type))


def source_location(function: Callable[..., Any]) -> str:
    """File and line of a function, for a developer to click on."""
    code = getattr(inspect.unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(function, "__module__", "")


class Signature:
    """A function's parameters. Their shape is checked at once, their types when the runtime starts."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        namespace: Mapping[str, Any] | None = None,
        used_types: Mapping[str, type] | None = None,
    ) -> None:
        self.function = function
        self.where = source_location(function)
        self._namespace = namespace
        self._parameters = self._inspect_parameters()
        self.used_types: dict[str, type] = {
            p.name: p.default.value_type for p in self._parameters if isinstance(p.default, UseMarker)
        }
        self.used_types.update(used_types or {})
        self._type_hints: dict[str, Any] | None = None

    def _inspect_parameters(self) -> list[inspect.Parameter]:
        try:
            found = list(inspect.signature(self.function).parameters.values())
        except (ValueError, TypeError) as error:
            raise DefinitionError(
                f"{self.function!r} has no signature to read.",
                fix="wrap it in a function of its own.",
                where=self.where,
            ) from error
        for parameter in found:
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise self._definition_error(
                    f"`*{parameter.name}` cannot be named by a model.", "take a list: `items: list[str]`."
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise self._definition_error(
                    f"`{parameter.name}` is positional-only.", "remove the `/`: arguments come by name."
                )
        return found

    def _definition_error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(problem, fix=fix, where=self.where)

    @property
    def type_hints(self) -> dict[str, Any]:
        """The resolved annotations."""
        if self._type_hints is None:
            self._type_hints = self._resolve_type_hints()
        return self._type_hints

    def _resolve_type_hints(self) -> dict[str, Any]:
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
            raise self._definition_error(f"An annotation cannot be read: {error}.", "annotate with types.") from error

    @property
    def context_parameter(self) -> str | None:
        """The parameter that wants the Context, if there is one."""
        return next(
            (name for name, hint in self.type_hints.items() if name != "return" and _is_context_hint(hint)), None
        )

    @property
    def needs_context_when_standalone(self) -> bool:
        """`ctx: Context | None` gets None when a tool is run by itself, `ctx: Context` a context of its own."""
        return self.context_parameter is not None and not self.is_optional(self.context_parameter)

    def is_optional(self, name: str) -> bool:
        """Whether a parameter may be None."""
        return type(None) in get_args(self.type_hints.get(name))

    @property
    def model_parameters(self) -> list[inspect.Parameter]:
        """The parameters that a model fills."""
        hidden = {self.context_parameter, *self.used_types}
        return [p for p in self._parameters if p.name not in hidden and p.kind is not p.VAR_KEYWORD]

    @property
    def required_names(self) -> set[str]:
        """The parameters without a default."""
        return {p.name for p in self.model_parameters if p.default is _NO_DEFAULT} - self.field_defaults.keys()

    @property
    def has_var_keyword(self) -> bool:
        """Whether it takes any further names (`**more`)."""
        return any(p.kind is p.VAR_KEYWORD for p in self._parameters)

    @property
    def field_defaults(self) -> dict[str, Callable[[], Any]]:
        """Defaults that Python itself cannot fill in, because they are wrapped in pydantic's `Field`."""
        fields = {p.name: p.default for p in self.model_parameters if _is_pydantic_field(p.default)}
        return {n: f.default_factory or (lambda f=f: f.default) for n, f in fields.items() if not f.is_required()}

    def build_typed_dict(self) -> Any:
        """A TypedDict with the fields, their descriptions and defaults, for pydantic to compile."""
        from typing_extensions import TypedDict

        docs = parse_docstring(inspect.getdoc(self.function)).parameters
        annotations = {
            p.name: _build_annotation(p, self.type_hints.get(p.name, Any), docs.get(p.name))
            for p in self.model_parameters
        }
        make: Any = TypedDict  # type checkers want a literal name, and there is none here
        made = make(f"{getattr(self.function, '__name__', 'tool')}_parameters", annotations)
        config = {"extra": "allow" if self.has_var_keyword else "forbid", "arbitrary_types_allowed": True}
        made.__pydantic_config__ = config
        return made


def _is_context_hint(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is Context or (get_origin(hint) in (Union, UnionType) and Context in get_args(hint))


def _is_pydantic_field(default: Any) -> bool:
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(default, fields.FieldInfo)


def _build_annotation(parameter: inspect.Parameter, hint: Any, doc: str | None) -> Any:
    from typing import Annotated, NotRequired

    from pydantic import Field

    default = parameter.default
    if _is_pydantic_field(default):
        given, default = (
            default,
            _NO_DEFAULT if default.is_required() else default.get_default(call_default_factory=True),
        )
        hint = Annotated[hint, *_field_without_default(given)]
    if doc and not _has_description(hint):
        hint = Annotated[hint, Field(description=doc)]
    if default is _NO_DEFAULT:
        return hint
    return NotRequired[Annotated[hint, Field(json_schema_extra=_schema_default(default))]]


def _field_without_default(field: Any) -> tuple[Any, ...]:
    """What a `Field(...)` says beside its default: its attributes as another field, then its constraints."""
    from pydantic import Field

    unset = Field().asdict()["attributes"]
    given = field.asdict()["attributes"].items()
    attributes = {name: value for name, value in given if value is not unset[name]}
    for name in ("default", "default_factory"):
        attributes.pop(name, None)
    return Field(**attributes), *field.metadata


def _has_description(hint: Any) -> bool:
    return any(getattr(extra, "description", None) for extra in getattr(hint, "__metadata__", ()))


def _schema_default(default: Any) -> dict[str, Any]:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return {"default": to_jsonable_python(default)}
    except PydanticSerializationError:
        return {}
