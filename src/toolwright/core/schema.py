"""Parameters: what a tool takes, how it is described to a model, and how arguments are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from toolwright.core.errors import DefinitionError, InvalidArguments
from toolwright.core.jsontext import check_plain, check_unique, colons, holds_at_most, parse
from toolwright.core.shape import Keys, holds_text, is_open, keys_of, tightened
from toolwright.core.unfold import work

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
        validator = SchemaValidator(core, None, False)
        self._python = validator.validate_python
        self.read = self._reader(validator.validate_json, keys_of(core) or _never)  # type: ignore[assignment]
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

    def _reader(self, validate: Callable[[str], Any], keys: Keys) -> Callable[[str], dict[str, Any]]:
        """Reads JSON text; a function of its own, because every call goes through it."""
        invalid, explain, whole, loose = self._invalid, self._explain, self._fields is not None, self._loose

        def read(text: str) -> dict[str, Any]:
            try:
                values = validate(text)
            except invalid as error:
                raise explain(error) from None
            if whole:
                values = self._whole(values)
            if text.count(":") != keys(values) and colons(text) > keys(values):
                check_unique(text)
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
        from toolwright.core.explain import explain

        return explain(error, self.schema)


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


class RawParameters:
    """Parameters given as a JSON Schema, kept as it is and checked with `jsonschema-rs`."""

    MAX_BYTES, MAX_DEPTH, MAX_WORK = 262_144, 64, 1 << 22

    def __init__(self, schema: Mapping[str, JSON], *, where: str = "") -> None:
        self._given, self._where = dict(schema), where
        self._checked = self._given
        self._validator: Any = None

    @property
    def schema(self) -> dict[str, JSON]:
        return self._given or {"type": "object", "properties": {}}

    def compile(self) -> None:
        if self._validator is not None:
            return
        import jsonschema_rs as js

        self._check_size()
        try:
            self._validator = js.validator_for(
                self._checked,
                retriever=_no_retrieval,
                # A schema may come from a stranger: patterns must run in linear time.
                pattern_options=js.RegexOptions(),
            )
        except Exception as error:
            raise self._wrong(f"The JSON Schema cannot be used: {str(error).splitlines()[0]}") from error

    @property
    def names(self) -> set[str]:
        """What the checked values are called."""
        return set(self._given.get("properties", {}))

    def narrow(self, needed: set[str], known: set[str]) -> None:
        """Refuse what a handler that takes its arguments by name cannot take, whatever the schema leaves open."""
        limits = {"required": sorted(needed), "propertyNames": {"enum": sorted(known)}}
        self._checked = {**self._given, "allOf": [*self._given.get("allOf", ()), limits]}
        self._validator = None
        self.compile()

    def _check_size(self) -> None:
        import json

        try:
            check_plain(self._given)
            size = len(json.dumps(self._given))
        except (InvalidArguments, TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"The JSON Schema is not plain JSON: {error}") from error
        if size > self.MAX_BYTES or _depth(self._given) > self.MAX_DEPTH:
            raise self._wrong(f"The JSON Schema is too large: {size} bytes, at most {self.MAX_BYTES} and 64 levels.")
        if work(self._given) > self.MAX_WORK:
            raise self._wrong("The JSON Schema refers to its parts so often that checking a value could take for ever.")

    def _wrong(self, problem: str) -> DefinitionError:
        return DefinitionError(problem, fix="give a valid JSON Schema whose $refs are local.", where=self._where)

    def read(self, text: str) -> dict[str, Any]:
        values = parse(text)
        if not isinstance(values, dict):
            raise InvalidArguments(f"The arguments must be a JSON object, not {type(values).__name__}.")
        return self.take(values)

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        if self._validator is None:
            self.compile()
        check_plain(values)
        values = dict(values)
        if self._accepts(values):
            return values
        from toolwright.core.explain import coerce, explain_schema

        coerced = coerce(values, self.schema)
        if coerced != values and self._accepts(coerced):
            return coerced
        raise explain_schema(self._errors(values), values, self.schema)

    def _errors(self, values: dict[str, Any]) -> Iterable[Any]:
        """All that is wrong with a value; with a large one only the first thing, since all of them are made at once."""
        if holds_at_most(1_000, values):
            return self._validator.iter_errors(values)  # type: ignore[no-any-return]
        import jsonschema_rs as js

        try:
            self._validator.validate(values)
        except js.ValidationError as error:
            return [error]
        return []

    def _accepts(self, values: dict[str, Any]) -> bool:
        try:
            return bool(self._validator.is_valid(values))
        except ValueError as error:  # what jsonschema-rs cannot convert, such as a Python object
            raise InvalidArguments(f"The arguments are not plain JSON: {error}") from None


def _no_retrieval(uri: str) -> None:
    raise ValueError(f"{uri} is not inside the schema, and nothing is fetched")


def _depth(schema: Any) -> int:
    level, depth = [schema], 0
    while level:
        depth += 1
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
        ]
    return depth
