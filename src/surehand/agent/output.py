"""The output type of an agent: its schema for the model, and the value of a final text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.strict_json import parse_json

MAX_CORRECTIONS = 2
"""How often a model may correct a final answer that is not of the output type."""
_MAX_PROBLEMS = 10
_FENCE = re.compile(r"\A```[a-zA-Z]*\s*\n(.*?)\n?```\Z", re.DOTALL)


class InvalidOutput(ValueError):
    """A final text is not JSON of the output type. The message is for the model."""


class _Checker(Protocol):
    """Checks a final text, and writes its value as JSON again."""

    schema: dict[str, Any]

    def read(self, text: str) -> Any:
        """The value of a JSON text; raises `InvalidOutput`."""

    def to_json(self, value: Any) -> Any:
        """A value as plain JSON."""


class OutputType:
    """The type of a run's output; a plain text if the agent has none."""

    def __init__(self, output_type: Any) -> None:
        self._checker = _build_checker(output_type)
        self.schema: dict[str, Any] | None = None if self._checker is None else self._checker.schema

    @property
    def instructions(self) -> str:
        """What the model has to know about its final answer; empty for a plain text."""
        if self.schema is None:
            return ""
        return (
            "Give your final answer as JSON alone, without any other text. It must match this JSON Schema:\n"
            f"{json.dumps(self.schema, ensure_ascii=False)}"
        )

    def parse(self, text: str) -> Any:
        """The value of a final text; raises `InvalidOutput`."""
        if self._checker is None:
            return text
        fenced = _FENCE.match(text.strip())
        return self._checker.read(fenced[1] if fenced else text.strip())

    def to_json(self, value: Any) -> Any:
        """A value of the type as plain JSON; None for a plain text, or if there is no value."""
        return None if self._checker is None or value is None else self._checker.to_json(value)

    def parse_if_valid(self, text: str) -> Any:
        """The value of a text that need not be a final one; None if it is not of the type."""
        try:
            return self.parse(text)
        except InvalidOutput:
            return None


def _build_checker(output_type: Any) -> _Checker | None:
    if output_type is None or output_type is str:
        return None
    return _SchemaChecker(output_type) if isinstance(output_type, Mapping) else _TypeChecker(output_type)


class _TypeChecker:
    """Checks texts against a Python type."""

    def __init__(self, output_type: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        self.schema = self._adapter.json_schema()

    def read(self, text: str) -> Any:
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise _invalid_output([(each["loc"], each["msg"]) for each in error.errors()[:_MAX_PROBLEMS]]) from None

    def to_json(self, value: Any) -> Any:
        return self._adapter.dump_python(value, mode="json")


class _SchemaChecker:
    """Checks texts against a JSON Schema; their values are plain JSON."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        import jsonschema_rs as js  # imported on first use: Python types do not need it

        self.schema = dict(schema)
        try:
            self._validator: Any = js.validator_for(self.schema, pattern_options=js.RegexOptions())
        except Exception as error:
            problem = f"The JSON Schema in `output` cannot be used: {str(error).splitlines()[0]}."
            raise DefinitionError(problem, fix="give a valid JSON Schema.") from error

    def read(self, text: str) -> Any:
        try:
            value = parse_json(text)
        except InvalidArguments as error:
            raise _invalid_output([((), str(error))]) from None
        errors = islice(self._validator.iter_errors(value), _MAX_PROBLEMS)
        if problems := [(tuple(each.instance_path), str(each.message)) for each in errors]:
            raise _invalid_output(problems)
        return value

    def to_json(self, value: Any) -> Any:
        return value


def _invalid_output(problems: list[tuple[tuple[Any, ...], str]]) -> InvalidOutput:
    described = "; ".join(f"{'.'.join(map(str, place)) or 'the answer'}: {problem}" for place, problem in problems)
    return InvalidOutput(f"Your answer is not the JSON that is asked for: {described.rstrip('.')}.")
