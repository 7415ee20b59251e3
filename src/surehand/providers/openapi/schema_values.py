"""Keywords of a schema that hold plain values: choices, limits, patterns, examples. `schema.py` converts the others."""

from __future__ import annotations

from typing import Any

from surehand.providers.openapi.descriptions import clean_description
from surehand.providers.openapi.keywords import VALUE_KEYWORDS, fits_types, is_small_pattern, usable_pattern
from surehand.providers.openapi.scalars import json_text
from surehand.providers.openapi.work_limit import WorkLimit

MAX_VALUE_CHARS = 64_000
"""Characters of a default, a constant, or of all choices together; larger ones are left out."""
MAX_EXAMPLE_CHARS = 200
MAX_DESCRIBED_PATTERN_CHARS = 200
"""Of a longer pattern that cannot be checked, only its length is told."""
PATTERN_WORK = 20
LARGE_PATTERN_WORK = 500


def add_values(schema: dict[str, Any], types: list[str], converted: dict[str, Any], work: WorkLimit) -> None:
    """Add the choices, the constant, the default, limits and an example, unless they are invalid or too large."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and work.can_copy(choices, MAX_VALUE_CHARS):
        converted["enum"] = _distinct(choices)
        if types and not any(fits_types(each, types) for each in choices):
            del converted["type"]  # a document that says `type: string, enum: [1, 2]` means the values
    if "const" in schema and work.can_copy(schema["const"], MAX_VALUE_CHARS):
        converted["const"] = schema["const"]
    if schema.get("default") is not None and work.can_copy(schema["default"], MAX_VALUE_CHARS):
        converted["default"] = schema["default"]
    for keyword, validate in VALUE_KEYWORDS.items():
        if keyword in schema and (value := validate(schema[keyword])) is not None:
            converted[keyword] = value
    _add_exclusive_limits(schema, converted)
    _add_pattern(schema, converted, work)
    _add_example(schema, converted, work)


def checked_pattern(pattern: Any, work: WorkLimit) -> str | None:
    """A pattern that the validator can compile; None for others, and where too many have been compiled already."""
    if not isinstance(pattern, str) or not work.spend(PATTERN_WORK):
        return None
    if is_small_pattern(pattern) or work.spend(LARGE_PATTERN_WORK):
        return usable_pattern(pattern)
    return None


def _add_pattern(schema: dict[str, Any], converted: dict[str, Any], work: WorkLimit) -> None:
    """A pattern that the validator cannot compile, such as one that looks ahead, is told to the model instead."""
    written = schema.get("pattern")
    pattern = checked_pattern(written, work)
    if pattern is not None:
        converted["pattern"] = pattern
    elif isinstance(written, str) and written:
        if len(written) <= MAX_DESCRIBED_PATTERN_CHARS:
            note = f"It must match the pattern {clean_description(written)}"
        else:
            note = f"It must match a pattern of {len(written):,} characters, which is not checked here."
        converted["description"] = " ".join(filter(None, (converted.get("description"), note)))


def _add_exclusive_limits(schema: dict[str, Any], converted: dict[str, Any]) -> None:
    """Before version 3.1, `exclusiveMinimum: true` says that the `minimum` itself is not allowed."""
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(exclusive) is True and limit in converted:
            converted[exclusive] = converted.pop(limit)


def _add_example(schema: dict[str, Any], converted: dict[str, Any], work: WorkLimit) -> None:
    written = schema.get("examples")
    examples = written[:1] if isinstance(written, list) else []
    if schema.get("example") is not None:
        examples = [schema["example"]]
    if examples and work.can_copy(examples, MAX_EXAMPLE_CHARS):
        converted["examples"] = examples


def _distinct(values: list[Any]) -> list[Any]:
    """The values without repetitions, which the validator refuses."""
    return list({json_text(value): value for value in values}.values())
