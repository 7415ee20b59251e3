"""Parameters of a tool: their JSON Schema for models, and the validation of arguments.

`TypedParameters` are built from Python types with pydantic; `RawParameters` (raw_schema.py) from a JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NotRequired, Protocol, Required, get_args, get_origin, get_type_hints

from surehand.core.argument_errors import MAX_PROBLEMS_COLLECTED, explain_validation_error
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.null_arguments import MAX_NULL_ROUNDS, without_null_properties
from surehand.core.pydantic_schema import (
    KeyCounter,
    accepts_any_value,
    accepts_strings,
    build_key_counter,
    make_lenient,
    make_strict,
)
from surehand.core.strict_json import count_key_colons, parse_json, validate_json_value, validate_unique_keys

JSON = Any
_VALUE_KEYWORDS = ("default", "const", "enum", "examples")  # their values are data, not schemas
_NO_DEFAULT = object()
_NAME_KEYWORDS = ("properties", "$defs")  # the keys of their values are names, not keywords


class Parameters(Protocol):
    """The parameters of a tool."""

    def compile(self) -> None:
        """Prepare validation, when the runtime starts; raises `DefinitionError`."""
        ...

    @property
    def schema(self) -> dict[str, JSON]:
        """The JSON Schema for models."""
        ...

    @property
    def argument_names(self) -> set[str]:
        """The names of the validated arguments."""
        ...

    def validate_json(self, text: str) -> dict[str, Any]:
        """Validated arguments from JSON text; raises `InvalidArguments`."""
        ...

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Validated arguments from a mapping; raises `InvalidArguments`."""
        ...


class ModelArguments(dict[str, Any]):
    """The fields of a model by name, and the model itself for a handler that takes it as its single argument."""

    model: Any


class TypedParameters:
    """Parameters from Python types: a signature, a pydantic model, a dataclass or a TypedDict.

    `build_type` returns the type. It is called when the runtime starts, so that forward references can be resolved.
    """

    def __init__(self, build_type: Callable[[], Any], *, where: str = "") -> None:
        self._build_type = build_type
        self._where = where
        self._schema: dict[str, JSON] | None = None
        self._adapter: Any = None

    def compile(self) -> None:
        if self._adapter is not None:
            return
        # Imported on first use: pydantic takes most of the time that importing this package would take.
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError
        from pydantic_core import SchemaValidator

        self._validation_error = ValidationError
        try:
            adapter = TypeAdapter(self._build_type())
            core_schema = make_strict(dict(adapter.core_schema))
        except (PydanticUserError, NameError, TypeError, AttributeError, SyntaxError) as error:
            problem, fix = _explain_compile_error(error)
            raise DefinitionError(problem, fix=fix, where=self._where) from error
        self._accepts_any_value = accepts_any_value(core_schema)
        self._accepts_strings = accepts_strings(core_schema)
        self._model_fields = _model_field_names(core_schema)
        # False: do not use the prebuilt validator of a model class, which accepts what `make_strict` rejects.
        strict = SchemaValidator(core_schema, None, False)
        count_keys = build_key_counter(core_schema)
        lenient = SchemaValidator(make_lenient(core_schema), None, False) if count_keys else strict
        self._validate_python = strict.validate_python
        validate_json = self._build_json_validator(
            lenient.validate_json, strict.validate_json, count_keys or _unknown_key_count
        )
        self.validate_json = validate_json  # type: ignore[assignment,method-assign]  # saves a lookup on every call
        if self._accepts_any_value:  # only these parameters can have a type without a JSON Schema: find out now
            self._schema = self._build_json_schema(adapter)
        self._adapter = adapter

    @property
    def schema(self) -> dict[str, JSON]:
        self.compile()
        if self._schema is None:
            self._schema = self._build_json_schema(self._adapter)
        return self._schema

    def _build_json_schema(self, adapter: Any) -> dict[str, JSON]:
        try:
            return _simplify_json_schema(adapter.json_schema())
        except Exception as error:
            raise DefinitionError(
                f"The parameters have no JSON Schema ({str(error).splitlines()[0]}).",
                fix="use types that JSON can hold, ask for others with use(...), or annotate with WithJsonSchema.",
                where=self._where,
            ) from error

    @property
    def argument_names(self) -> set[str]:
        """The names of the validated arguments: the fields of a model, even if its JSON Schema shows aliases."""
        return set(self.schema["properties"] if self._model_fields is None else self._model_fields)

    def validate_json(self, text: str) -> dict[str, Any]:
        self.compile()
        return self.validate_json(text)  # compile() has replaced this method on the instance

    def _build_json_validator(
        self, lenient: Callable[[str], Any], strict: Callable[[str], Any], count_keys: KeyCounter
    ) -> Callable[[str], dict[str, Any]]:
        """A function that validates JSON text. It is a closure because every call goes through it.

        The lenient validator comes first, which ignores unknown keys. If the text has as many colons as the values have
        keys, no key is unknown or repeated; only otherwise is the text validated strictly.
        """
        validation_error = self._validation_error
        validate_without_nulls = partial(self._validate_text_without_nulls, strict)
        is_model = self._model_fields is not None
        accepts_any_value = self._accepts_any_value

        def validate_json(text: str) -> dict[str, Any]:
            try:
                values = lenient(text)
                if is_model:
                    values = self._model_arguments(values)
                # Colons inside strings count too, so that only the second, slower count decides.
                if text.count(":") != count_keys(values) and count_key_colons(text) > count_keys(values):
                    values = self._model_arguments(strict(text)) if is_model else strict(text)
                    validate_unique_keys(text)
            except validation_error as error:
                values = validate_without_nulls(text, _strict_error(strict, text) or error)
            if accepts_any_value:
                validate_json_value(values)
            return values  # type: ignore[no-any-return]  # the schema is that of an object, so this is a dict

        return validate_json

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._adapter is None:
            self.compile()
        if self._accepts_any_value or self._accepts_strings:
            validate_json_value(values)
        try:
            validated = self._validate_python(values)
        except self._validation_error as error:
            validated = self._validate_without_nulls(values, error, self._validate_python)
        except RecursionError:
            raise InvalidArguments("The arguments are nested too deeply. Send a flatter value.") from None
        return validated if self._model_fields is None else self._model_arguments(validated)

    def _model_arguments(self, model: Any) -> ModelArguments:
        arguments = ModelArguments({name: getattr(model, name) for name in self._model_fields or ()})
        arguments.model = model
        return arguments

    def _validate_text_without_nulls(self, strict: Callable[[Any], Any], text: str, error: Any) -> dict[str, Any]:
        """`_validate_without_nulls` for JSON text."""
        from pydantic_core import to_json

        try:
            values = parse_json(text)
        except InvalidArguments:
            values = None
        if not isinstance(values, dict):
            raise explain_validation_error(error, self.schema) from None
        validated = self._validate_without_nulls(values, error, lambda remaining: strict(to_json(remaining)))
        return validated if self._model_fields is None else self._model_arguments(validated)

    def _validate_without_nulls(
        self, values: Mapping[str, Any], error: Any, validate: Callable[[Mapping[str, Any]], Any]
    ) -> Any:
        """Validate invalid arguments again, without their nulls for optional parameters; raises `InvalidArguments`."""
        for _ in range(MAX_NULL_ROUNDS):
            remaining = without_null_properties(values, _null_paths(error), self.schema)
            if remaining is None:
                break
            values = remaining
            try:
                return validate(values)
            except self._validation_error as next_error:
                error = next_error
        raise explain_validation_error(error, self.schema, values) from None


def _null_paths(error: Any) -> list[tuple[Any, ...]]:
    """The paths of nulls that a pydantic `ValidationError` is about."""
    if error.error_count() > MAX_PROBLEMS_COLLECTED:
        return []
    problems = error.errors(include_url=False, include_context=False)
    return [problem["loc"] for problem in problems if problem["input"] is None]


def _strict_error(strict: Callable[[str], Any], text: str) -> Exception | None:
    """The error of strict validation, which also lists unknown names."""
    try:
        strict(text)
    except ValueError as error:
        return error
    return None


def _unknown_key_count(values: dict[str, Any]) -> int:
    """A count that no text has, so that the text is validated strictly."""
    return -1


def _explain_compile_error(error: Exception) -> tuple[str, str]:
    text = str(error).splitlines()[0]
    if "typing_extensions.TypedDict" in text:
        return text, "from typing_extensions import TypedDict"
    if isinstance(error, NameError):
        return f"A type cannot be found: {text}.", "import the type at module level, or define it before the tool."
    return f"The parameters' types cannot be used: {text}.", "annotate with types that pydantic knows."


def _object_core_schema(core_schema: Any) -> dict[str, Any]:
    """The part of a core schema that describes the fields, without the validators and models around it."""
    while core_schema.get("type") not in ("typed-dict", "model-fields", "dataclass-args") and "schema" in core_schema:
        core_schema = core_schema["schema"]
    return core_schema  # type: ignore[no-any-return]


def _model_field_names(core_schema: Any) -> tuple[str, ...] | None:
    """The field names of a model or dataclass; None for a TypedDict, whose values are dictionaries already."""
    object_schema = _object_core_schema(core_schema)
    if object_schema.get("type") == "typed-dict":
        return None
    fields = object_schema.get("fields", ())
    return tuple(fields) if isinstance(fields, dict) else tuple(field["name"] for field in fields)


def _simplify_json_schema(schema: dict[str, JSON]) -> dict[str, JSON]:
    """The schema without the titles that pydantic adds: they cost tokens and do not help a model."""
    ref = schema.get("$ref", "")
    if ref.startswith("#/$defs/"):  # pydantic puts a recursive model into `$defs`; APIs want its fields at the top
        schema = {**schema["$defs"][ref.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    schema.pop("description", None)
    return {"type": "object", "properties": {}, "additionalProperties": False, **_strip_titles(schema)}


def _strip_titles(schema: Any, *, keys_are_names: bool = False) -> Any:
    """The schema without titles, and with optional properties described by their types alone."""
    if isinstance(schema, list):
        return [_strip_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if keys_are_names:
            result[key] = _strip_titles(value)
        elif key in _VALUE_KEYWORDS:
            result[key] = value
        elif key != "title" or not isinstance(value, str):
            result[key] = _strip_titles(value, keys_are_names=key in _NAME_KEYWORDS)
    if not keys_are_names and isinstance(result.get("properties"), dict):
        result["properties"] = {name: _without_null(field) for name, field in result["properties"].items()}
    return result


def _without_null(field: Any) -> Any:
    """A property that may be left out for null, described without null: leaving it out says the same."""
    if not isinstance(field, dict) or field.get("default", _NO_DEFAULT) is not None:
        return field
    described = {key: value for key, value in field.items() if key != "default"}
    if "anyOf" not in described:
        return described
    choices = [choice for choice in described.pop("anyOf") if choice != {"type": "null"}]
    return {**choices[0], **described} if len(choices) == 1 else {"anyOf": choices, **described}


def to_pydantic_typed_dict(source: Any) -> Any:
    """The TypedDict as one of `typing_extensions`: before Python 3.12, pydantic does not accept those of `typing`."""
    from typing_extensions import TypedDict  # imported on first use: few tools need it

    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(source, include_extras=True).items():
        marker: Any = Required if name in source.__required_keys__ else NotRequired
        fields[name] = marker[_strip_required_marker(hint)]
    create: Any = TypedDict  # type checkers accept only a literal name, and here it is a variable
    typed_dict = create(source.__name__, fields)
    typed_dict.__doc__ = source.__doc__
    typed_dict.__pydantic_config__ = getattr(source, "__pydantic_config__", {"extra": "forbid"})
    return typed_dict


def _strip_required_marker(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
