"""The output type of an agent: its schema for the model, and the value of a final text."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

MAX_CORRECTIONS = 2
"""How often a model may correct a final answer that is not of the output type."""
_FENCE = re.compile(r"\A```[a-zA-Z]*\s*\n(.*?)\n?```\Z", re.DOTALL)


class InvalidOutput(ValueError):
    """A final text is not JSON of the output type. The message is for the model."""


class OutputType:
    """The type of a run's output; a plain text if the agent has none."""

    def __init__(self, output_type: Any) -> None:
        is_text = output_type is None or output_type is str
        self._adapter: TypeAdapter[Any] | None = None if is_text else TypeAdapter(output_type)
        self.schema: dict[str, Any] | None = None if self._adapter is None else self._adapter.json_schema()

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
        if self._adapter is None:
            return text
        fenced = _FENCE.match(text.strip())
        try:
            return self._adapter.validate_json(fenced[1] if fenced else text.strip())
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in error.errors()[:10]
            )
            raise InvalidOutput(f"Your answer is not the JSON that is asked for: {problems}.") from None

    def to_json(self, value: Any) -> Any:
        """A value of the type as plain JSON; None for a plain text, or if there is no value."""
        return None if self._adapter is None or value is None else self._adapter.dump_python(value, mode="json")

    def parse_if_valid(self, text: str) -> Any:
        """The value of a text that need not be a final one; None if it is not of the type."""
        try:
            return self.parse(text)
        except InvalidOutput:
            return None
