"""Parameters: what a tool takes, how it is described to a model, and how arguments are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.jsontext import check_plain, check_unique, colons
from surehand.core.shape import Keys, holds_text, is_open, keys_of, lenient, tightened

JSON = Any


class Parameters(Protocol):
    """What a tool takes. `compile` comes first, when the runtime starts; it raises `DefinitionError`."""

    def compile(self) -> None: ...

    @property
    def schema(self) -> dict[str, JSON]:
        """The JSON Schema that a model is shown."""
        ...

    @property
    def names(self) -> set[str]:
        """What the checked values are called."""
        ...

    def read(self, text: str) -> dict[str, Any]:
        """Checked values from JSON text; raises `InvalidArguments`."""
        ...

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values from a mapping; raises `InvalidArguments`."""
        ...


class Whole(dict[str, Any]):
    """The fields of a model, and the model itself for a handler that takes it whole."""

    model: Any


class TypedParameters:
    """Parameters made from Python types: a signature, a pydantic model, a dataclass or a TypedDict.

    `build` gives the type; it runs when the runtime starts, so that forward references work.
    """

    def __init__(self, build: Callable[[], Any], *, where: str = "") -> None:
        self._build, self._where = build, where
        self._schema: dict[str, JSON] | None = None
        self._adapter: Any = None

    def compile(self) -> None:
        if self._adapter is not None:
            return
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError
        from pydantic_core import SchemaValidator

        self._invalid = ValidationError
        try:
            adapter = TypeAdapter(self._build())
            core = tightened(dict(adapter.core_schema))
        except (PydanticUserError, NameError, TypeError, AttributeError, SyntaxError) as error:
            problem, fix = _why_not_compiled(error)
            raise DefinitionError(problem, fix=fix, where=self._where) from error
        self._loose = is_open(core)
        self._wordy = holds_text(core)
        self._fields = _fields_of(core)
        # A model class's own prebuilt validator would let in what `tightened` refuses.
        validator, keys = SchemaValidator(core, None, False), keys_of(core)
        quick = SchemaValidator(lenient(core), None, False) if keys else validator
        self._python = validator.validate_python
        self.read = self._reader(quick.validate_json, validator.validate_json, keys or _never)  # type: ignore[assignment]
        if self._loose:  # only there may a type be that JSON cannot hold
            self._schema = self._shown(adapter)
        self._adapter = adapter

    @property
    def schema(self) -> dict[str, JSON]:
        self.compile()
        if self._schema is None:
            self._schema = self._shown(self._adapter)
        return self._schema

    def _shown(self, adapter: Any) -> dict[str, JSON]:
        try:
            return _tidy(adapter.json_schema())
        except Exception as error:
            raise DefinitionError(
                f"The parameters have no JSON Schema ({str(error).splitlines()[0]}).",
                fix="use types that JSON can hold, ask for others with use(...), or annotate with WithJsonSchema.",
                where=self._where,
            ) from error

    @property
    def names(self) -> set[str]:
        """What the checked values are called: a model's fields, even where a model is shown aliases."""
        return set(self.schema["properties"] if self._fields is None else self._fields)

    def read(self, text: str) -> dict[str, Any]:
        self.compile()
        return self.read(text)  # compile() has put the quick one in this method's place

    def _reader(
        self, quick: Callable[[str], Any], strict: Callable[[str], Any], keys: Keys
    ) -> Callable[[str], dict[str, Any]]:
        """Reads JSON text; a function of its own, because every call goes through it.

        Where the text has just as many colons as the values have keys, no key is unknown or given twice; only else is
        it read strictly.
        """
        invalid, explain, whole, loose = self._invalid, self._explain, self._fields is not None, self._loose

        def read(text: str) -> dict[str, Any]:
            try:
                values = quick(text)
                if whole:
                    values = self._whole(values)
                if text.count(":") != keys(values) and colons(text) > keys(values):
                    values = self._whole(strict(text)) if whole else strict(text)
                    check_unique(text)
            except invalid as error:
                raise explain(_told_by(strict, text) or error) from None
            if loose:
                check_plain(values)
            return values  # type: ignore[no-any-return]  # validators give what their schema says: a dict

        return read

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._adapter is None:
            self.compile()
        if self._loose or self._wordy:
            check_plain(values)
        try:
            checked = self._python(values)
        except self._invalid as error:
            raise self._explain(error) from None
        except RecursionError:
            raise InvalidArguments("The arguments are nested too deeply. Send a flatter value.") from None
        return checked if self._fields is None else self._whole(checked)

    def _whole(self, model: Any) -> Whole:
        whole = Whole({name: getattr(model, name) for name in self._fields or ()})
        whole.model = model
        return whole

    def _explain(self, error: Any) -> InvalidArguments:
        from surehand.core.explain import explain

        return explain(error, self.schema)


def _told_by(strict: Callable[[str], Any], text: str) -> Exception | None:
    """All that is wrong, unknown names too."""
    try:
        strict(text)
    except ValueError as error:
        return error
    return None


def _never(values: dict[str, Any]) -> int:
    return -1


def _why_not_compiled(error: Exception) -> tuple[str, str]:
    text = str(error).splitlines()[0]
    if "typing_extensions.TypedDict" in text:
        return text, "from typing_extensions import TypedDict"
    if isinstance(error, NameError):
        return f"A type cannot be found: {text}.", "import the type at module level, or define it before the tool."
    return f"The parameters' types cannot be used: {text}.", "annotate with types that pydantic knows."


def _object_of(core: Any) -> dict[str, Any]:
    while core.get("type") not in ("typed-dict", "model-fields", "dataclass-args") and "schema" in core:
        core = core["schema"]
    return core  # type: ignore[no-any-return]


def _fields_of(core: Any) -> tuple[str, ...] | None:
    inner = _object_of(core)
    if inner.get("type") == "typed-dict":
        return None
    fields = inner.get("fields", ())
    return tuple(fields) if isinstance(fields, dict) else tuple(field["name"] for field in fields)


def _tidy(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Without the titles that pydantic adds: they cost tokens and tell a model nothing."""
    if (ref := schema.get("$ref", "")).startswith("#/$defs/"):  # a recursive model: show its own fields at the top
        schema = {**schema["$defs"][ref.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    schema.pop("description", None)
    return {"type": "object", "properties": {}, "additionalProperties": False, **_untitled(schema)}


_VALUES, _NAMES = ("default", "const", "enum", "examples"), ("properties", "$defs")


def _untitled(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if names or key != "title" or not isinstance(value, str)}
    return {
        key: value if not names and key in _VALUES else _untitled(value, names=not names and key in _NAMES)
        for key, value in kept.items()
    }
