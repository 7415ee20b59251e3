"""Bodies whose fields can be arguments of their own: one flat object is easier for a model than a nested one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ALL_OF_PARTS, MAX_ARGUMENTS, MAX_BODY_FIELDS

_OTHER_SHAPES = ("oneOf", "anyOf", "not", "if", "patternProperties", "dependentSchemas", "enum", "const")
"""Keywords that say more about an object than which fields it has."""


@dataclass(slots=True)
class FlatBody:
    """The fields of a body in order, each with all schemas that the document has for it."""

    fields: dict[str, list[Located]] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)


def flatten_body(document: Document, schema: Located) -> FlatBody | None:
    """The fields of an object; None for any other body, and for an object that may have any fields."""
    flat = FlatBody()
    field_count = 0
    for part in iter_all_of_parts(document, schema):
        if not _has_only_fields(part.value):
            return None
        field_count += _add_fields(part, flat)
        if len(flat.fields) > MAX_ARGUMENTS or field_count > MAX_BODY_FIELDS:
            return None
    if not flat.fields:
        return None
    read_only = {name for name, schemas in flat.fields.items() if any(is_read_only(document, s) for s in schemas)}
    for name in read_only:
        del flat.fields[name]
    flat.required -= read_only
    # A required field that nothing describes could not be given.
    return flat if flat.fields and flat.required <= flat.fields.keys() else None


def iter_all_of_parts(document: Document, schema: Located) -> Iterator[Located]:
    """The resolved schemas that apply to the same value: the schema, then those of its `allOf`, each one once.

    Raises `UnusableOperation` for very many: a hostile document can join a few of them in billions of ways.
    """
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        located = waiting.pop()
        part = document.resolve(located.value, located.source)
        if id(part.value) in seen:
            continue
        seen.add(id(part.value))
        if len(seen) > MAX_ALL_OF_PARTS:
            raise UnusableOperation(f"The body joins more than {MAX_ALL_OF_PARTS:,} schemas with `allOf`.")
        yield part
        parts = part.value.get("allOf") if isinstance(part.value, dict) else None
        if isinstance(parts, list):
            # The last one is taken first, so that the fields keep their order.
            waiting += [Located(each, part.source) for each in reversed(parts[: MAX_ALL_OF_PARTS + 1])]


def _has_only_fields(value: Any) -> bool:
    """Whether a schema says no more about a value than that it is an object with certain fields."""
    if not isinstance(value, dict):
        return False
    if value.get("type", "object") not in ("object", ["object"]) or value.get("nullable") is True:
        return False
    if any(key in value for key in _OTHER_SHAPES) or value.get("additionalProperties") not in (None, False):
        return False
    return isinstance(value.get("allOf", []), list)


def _add_fields(part: Located, flat: FlatBody) -> int:
    """Add the fields of one schema; returns how many they are."""
    properties = part.value.get("properties")
    if isinstance(properties, dict):
        for name, each in islice(properties.items(), MAX_ARGUMENTS + 1):
            flat.fields.setdefault(str(name), []).append(Located(each, part.source))
    required = part.value.get("required")
    if isinstance(required, list):
        flat.required |= {name for name in required[:MAX_ARGUMENTS] if isinstance(name, str)}
    return len(properties) if isinstance(properties, dict) else 0


def is_read_only(document: Document, schema: Located) -> bool:
    """Whether a field is for responses only."""
    if not isinstance(schema.value, dict):
        return False
    if schema.value.get("readOnly") is True:
        return True
    value = document.resolve(schema.value, schema.source).value
    return isinstance(value, dict) and value.get("readOnly") is True
