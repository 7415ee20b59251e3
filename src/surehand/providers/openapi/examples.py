"""Examples that stand beside a schema, in a parameter or a media type: a model learns from them what is meant."""

from __future__ import annotations

from itertools import islice
from typing import Any

from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.schema_values import MAX_EXAMPLE_CHARS
from surehand.providers.openapi.work_limit import WorkLimit

_VALUE_KEYS = ("value", "dataValue")
"""Where an Example Object has its value; the second is of version 3.2."""
MAX_EXAMPLES = 10
"""Named examples that are looked at for one with a value."""


def find_examples(document: Document, owner: Located) -> tuple[Any, ...]:
    """The example of a parameter or media type; empty if it has none."""
    if not isinstance(owner.value, dict):
        return ()
    if owner.value.get("example") is not None:
        return (owner.value["example"],)
    named = owner.value.get("examples")
    for written in islice(named.values(), MAX_EXAMPLES) if isinstance(named, dict) else ():
        try:
            example = document.resolve(written, owner.source).value
        except UnusableOperation:  # an example that is missing costs no operation
            continue
        for key in _VALUE_KEYS:
            if isinstance(example, dict) and example.get(key) is not None:
                return (example[key],)
    return ()


def with_examples(schema: dict[str, Any], examples: tuple[Any, ...], work: WorkLimit) -> dict[str, Any]:
    """A converted schema with examples, unless it has some of its own or they are large."""
    if not examples or "examples" in schema or not work.can_copy(list(examples), MAX_EXAMPLE_CHARS):
        return schema
    return {**schema, "examples": list(examples)}
