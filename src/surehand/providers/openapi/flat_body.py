"""Bodies whose fields can be arguments of their own: one flat object is easier for a model than a nested one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from surehand.providers.openapi.document import Document, Located

MAX_ALL_OF_DEPTH = 8
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
    is_flat = _collect_fields(document, schema, flat, 0)
    if not is_flat or not flat.fields:
        return None
    read_only = {name for name, schemas in flat.fields.items() if any(_is_read_only(document, s) for s in schemas)}
    for name in read_only:
        del flat.fields[name]
    flat.required -= read_only
    # A required field that nothing describes could not be given.
    return flat if flat.fields and flat.required <= flat.fields.keys() else None


def _collect_fields(document: Document, schema: Located, flat: FlatBody, depth: int) -> bool:
    located = document.resolve(schema.value, schema.source)
    value = located.value
    if not isinstance(value, dict) or depth > MAX_ALL_OF_DEPTH:
        return False
    if value.get("type", "object") not in ("object", ["object"]) or value.get("nullable") is True:
        return False
    if any(key in value for key in _OTHER_SHAPES) or value.get("additionalProperties") not in (None, False):
        return False
    properties = value.get("properties")
    if isinstance(properties, dict):
        for name, each in properties.items():
            flat.fields.setdefault(str(name), []).append(Located(each, located.source))
    required = value.get("required")
    if isinstance(required, list):
        flat.required |= {name for name in required if isinstance(name, str)}
    parts: Any = value.get("allOf")
    if parts is None:
        return True
    if not isinstance(parts, list):
        return False
    return all(_collect_fields(document, Located(part, located.source), flat, depth + 1) for part in parts)


def _is_read_only(document: Document, schema: Located) -> bool:
    if not isinstance(schema.value, dict):
        return False
    if schema.value.get("readOnly") is True:
        return True
    value = document.resolve(schema.value, schema.source).value
    return isinstance(value, dict) and value.get("readOnly") is True
