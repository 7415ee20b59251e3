"""Parameters: what a tool takes, how it is described to a model, and how arguments are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_type_hints

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.pydantic_schema import (
    KeyCounter,
    accepts_any_value,
    accepts_strings,
    build_key_counter,
    make_lenient,
    make_strict,
)
from surehand.core.strict_json import count_key_colons, validate_json_value, validate_unique_keys


def to_pydantic_typed_dict(source: Any) -> Any:
    """The same TypedDict, as `typing_extensions` makes it."""
    from typing import NotRequired, Required

    from typing_extensions import TypedDict

    hints = get_type_hints(source, include_extras=True)
    required = source.__required_keys__
    keys = {
        name: (Required if name in required else NotRequired)[_strip_required_marker(hint)]
        for name, hint in hints.items()
    }
    make: Any = TypedDict  # type checkers want a literal name, and there is none here
    made = make(source.__name__, keys)
    made.__doc__ = source.__doc__
    made.__pydantic_config__ = getattr(source, "__pydantic_config__", {"extra": "forbid"})
    return made


def _strip_required_marker(hint: Any) -> Any:
    from typing import NotRequired, Required, get_args, get_origin

    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


JSON = Any


class Parameters(Protocol):
    """What a tool takes. `compile` comes first, when the runtime starts; it raises `DefinitionError`."""

    def compile(self) -> None: ...

    @property
    def schema(self) -> dict[str, JSON]:
        """The JSON Schema that a model is shown."""
        ...

    @property
    def argument_names(self) -> set[str]:
        """What the checked values are called."""
        ...

    def validate_json(self, text: str) -> dict[str, Any]:
        """Checked values from JSON text; raises `InvalidArguments`."""
        ...

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values from a mapping; raises `InvalidArguments`."""
        ...


class ModelArguments(dict[str, Any]):
    """The fields of a model, and the model itself for a handler that takes it whole."""

    model: Any


class TypedParameters:
    """Parameters made from Python types: a signature, a pydantic model, a dataclass or a TypedDict.

    `build` gives the type; it runs when the runtime starts, so that forward references work.
    """

    def __init__(self, build_type: Callable[[], Any], *, where: str = "") -> None:
        self._build_type, self._where = build_type, where
        self._schema: dict[str, JSON] | None = None
        self._adapter: Any = None

    def compile(self) -> None:
        if self._adapter is not None:
            return
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError
        from pydantic_core import SchemaValidator

        self._validation_error = ValidationError
        try:
            adapter = TypeAdapter(self._build_type())
            core = make_strict(dict(adapter.core_schema))
        except (PydanticUserError, NameError, TypeError, AttributeError, SyntaxError) as error:
            problem, fix = _explain_compile_error(error)
            raise DefinitionError(problem, fix=fix, where=self._where) from error
        self._accepts_any_value = accepts_any_value(core)
        self._accepts_strings = accepts_strings(core)
        self._model_fields = _model_field_names(core)
        # A model class's own prebuilt validator would let in what `tightened` refuses.
        validator, keys = SchemaValidator(core, None, False), build_key_counter(core)
        quick = SchemaValidator(make_lenient(core), None, False) if keys else validator
        self._validate_python = validator.validate_python
        validate_json = self._build_json_validator(
            quick.validate_json, validator.validate_json, keys or _unknown_key_count
        )
        self.validate_json = validate_json  # type: ignore[assignment,method-assign]  # saves a lookup on every call
        if self._accepts_any_value:  # only there may a type be that JSON cannot hold
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
        """What the checked values are called: a model's fields, even where a model is shown aliases."""
        return set(self.schema["properties"] if self._model_fields is None else self._model_fields)

    def validate_json(self, text: str) -> dict[str, Any]:
        self.compile()
        return self.validate_json(text)  # compile() has put the quick one in this method's place

    def _build_json_validator(
        self, lenient: Callable[[str], Any], strict: Callable[[str], Any], count_keys: KeyCounter
    ) -> Callable[[str], dict[str, Any]]:
        """Reads JSON text; a function of its own, because every call goes through it.

        Where the text has just as many colons as the values have keys, no key is unknown or given twice; only else is
        it read strictly.
        """
        invalid, explain, whole, loose = (
            self._validation_error,
            self._explain_error,
            self._model_fields is not None,
            self._accepts_any_value,
        )

        def read(text: str) -> dict[str, Any]:
            try:
                values = lenient(text)
                if whole:
                    values = self._model_arguments(values)
                if text.count(":") != count_keys(values) and count_key_colons(text) > count_keys(values):
                    values = self._model_arguments(strict(text)) if whole else strict(text)
                    validate_unique_keys(text)
            except invalid as error:
                raise explain(_strict_error(strict, text) or error) from None
            if loose:
                validate_json_value(values)
            return values  # type: ignore[no-any-return]  # validators give what their schema says: a dict

        return read

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._adapter is None:
            self.compile()
        if self._accepts_any_value or self._accepts_strings:
            validate_json_value(values)
        try:
            checked = self._validate_python(values)
        except self._validation_error as error:
            raise self._explain_error(error) from None
        except RecursionError:
            raise InvalidArguments("The arguments are nested too deeply. Send a flatter value.") from None
        return checked if self._model_fields is None else self._model_arguments(checked)

    def _model_arguments(self, model: Any) -> ModelArguments:
        whole = ModelArguments({name: getattr(model, name) for name in self._model_fields or ()})
        whole.model = model
        return whole

    def _explain_error(self, error: Any) -> InvalidArguments:
        from surehand.core.argument_errors import explain_validation_error

        return explain_validation_error(error, self.schema)


def _strict_error(strict: Callable[[str], Any], text: str) -> Exception | None:
    """All that is wrong, unknown names too."""
    try:
        strict(text)
    except ValueError as error:
        return error
    return None


def _unknown_key_count(values: dict[str, Any]) -> int:
    return -1


def _explain_compile_error(error: Exception) -> tuple[str, str]:
    text = str(error).splitlines()[0]
    if "typing_extensions.TypedDict" in text:
        return text, "from typing_extensions import TypedDict"
    if isinstance(error, NameError):
        return f"A type cannot be found: {text}.", "import the type at module level, or define it before the tool."
    return f"The parameters' types cannot be used: {text}.", "annotate with types that pydantic knows."


def _object_core_schema(core: Any) -> dict[str, Any]:
    while core.get("type") not in ("typed-dict", "model-fields", "dataclass-args") and "schema" in core:
        core = core["schema"]
    return core  # type: ignore[no-any-return]


def _model_field_names(core: Any) -> tuple[str, ...] | None:
    inner = _object_core_schema(core)
    if inner.get("type") == "typed-dict":
        return None
    fields = inner.get("fields", ())
    return tuple(fields) if isinstance(fields, dict) else tuple(field["name"] for field in fields)


def _simplify_json_schema(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Without the titles that pydantic adds: they cost tokens and tell a model nothing."""
    if (ref := schema.get("$ref", "")).startswith("#/$defs/"):  # a recursive model: show its own fields at the top
        schema = {**schema["$defs"][ref.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    schema.pop("description", None)
    return {"type": "object", "properties": {}, "additionalProperties": False, **_strip_titles(schema)}


_VALUE_KEYWORDS, _NAME_KEYWORDS = ("default", "const", "enum", "examples"), ("properties", "$defs")


def _strip_titles(schema: Any, *, keys_are_names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_strip_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: value for key, value in schema.items() if keys_are_names or key != "title" or not isinstance(value, str)
    }
    return {
        key: value
        if not keys_are_names and key in _VALUE_KEYWORDS
        else _strip_titles(value, keys_are_names=not keys_are_names and key in _NAME_KEYWORDS)
        for key, value in kept.items()
    }
