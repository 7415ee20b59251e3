"""Converts the schemas of a document to JSON Schema for arguments: what a model is shown, and what is enforced.

Version 2.0 and 3.0 have their own dialect (`nullable`, boolean limits), and documents have mistakes: a keyword that
means nothing, or that the validator cannot compile, is left out, so that the schema may accept more, never less.
Read-only properties are left out. References become `$defs`, so that cycles stay cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from surehand.core.names import sanitize_name
from surehand.providers.openapi.descriptions import clean_description
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.keywords import (
    valid_types,
)
from surehand.providers.openapi.scalars import json_text
from surehand.providers.openapi.schema_values import add_values, checked_pattern
from surehand.providers.openapi.work_limit import WorkLimit

MAX_DEPTH = 20
"""Levels of one schema that are written out; deeper ones accept anything."""
MAX_DEFINITION_WORK = 2_000
"""Units of work for one definition that others refer to."""
WORK_PER_DEFINITION = 4
DESCRIPTION_CHARS_PER_WORK = 400
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_KEYWORDS = ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_SCHEMA_MAP_KEYWORDS = ("patternProperties", "dependentSchemas")
_COUNTED_KEYWORDS = frozenset(
    {"type", "properties", "required", "items", *_SCHEMA_LIST_KEYWORDS, *_SCHEMA_MAP_KEYWORDS}
)
_LISTS = (dict, list)
DEFS_PREFIX = "#/$defs/"


@dataclass(frozen=True, slots=True)
class Definition:
    """The converted target of a reference, and the names of the definitions that it refers to."""

    schema: dict[str, Any]
    refs: tuple[str, ...]
    size: int
    """Characters of its JSON."""
    work: int
    """Units of work that its conversion took."""


@dataclass(slots=True, eq=False)
class SchemaConverter:
    """Converts schemas of one document; converted references are kept for all operations."""

    document: Document
    for_responses: bool = False
    """Whether write-only properties are left out, in place of read-only ones."""
    _names: dict[int, str] = field(default_factory=dict)
    """The name of each definition by the identity of the value that it is made from."""
    _targets: dict[str, Located] = field(default_factory=dict)
    _definitions: dict[str, Definition] = field(default_factory=dict)
    _next_numbers: dict[str, int] = field(default_factory=dict)
    """The number that makes the next definition of the same name unique."""

    def convert(self, located: Located, work: WorkLimit) -> tuple[dict[str, Any], set[str]]:
        """A converted schema, and the names of the definitions that it refers to."""
        conversion = _Conversion(self, work)
        return conversion.convert(located.value, located.source, 0), conversion.refs

    def name_for(self, located: Located) -> str:
        """The name under which the target of a reference stands in `$defs`."""
        key = id(located.value)
        if key not in self._names:
            wanted = sanitize_name(located.ref.rpartition("/")[2].rpartition("#")[2] or "schema")[:60]
            name = wanted
            while name in self._targets:
                number = self._next_numbers.get(wanted, 2)
                self._next_numbers[wanted] = number + 1
                name = f"{wanted}_{number}"
            self._names[key] = name
            self._targets[name] = located
        return self._names[key]

    def definition(self, name: str) -> Definition:
        """The converted definition of that name."""
        if name not in self._definitions:
            located = self._targets[name]
            work = WorkLimit(MAX_DEFINITION_WORK)
            schema, refs = self.convert(Located(located.value, located.source), work)
            used_work = WORK_PER_DEFINITION + MAX_DEFINITION_WORK - max(work.remaining, 0)
            self._definitions[name] = Definition(schema, tuple(sorted(refs)), len(json_text(schema)), used_work)
        return self._definitions[name]

    def collect_definitions(self, names: Iterable[str], max_chars: int) -> dict[str, Any]:
        """All definitions that are needed, nearest first. What does not fit accepts any value."""
        found: dict[str, Any] = {}
        waiting = sorted(names)
        used = 0
        work = WorkLimit()
        while waiting:
            further: list[str] = []
            for name in waiting:
                if name in found:
                    continue
                definition = self.definition(name) if used < max_chars and work.remaining > 0 else None
                if definition is not None:
                    work.spend(definition.work)
                if definition is None or used + definition.size > max_chars:
                    found[name] = {"description": "Any value."}
                    continue
                used += definition.size
                found[name] = definition.schema
                further += definition.refs
            waiting = further
        return found


class _Conversion:
    """The conversion of one schema, with what it refers to."""

    def __init__(self, converter: SchemaConverter, work: WorkLimit) -> None:
        self._converter = converter
        self._work = work
        self._document = converter.document
        self._hidden_flag = "writeOnly" if converter.for_responses else "readOnly"
        self._has_siblings = converter.document.version >= (3, 1)
        self.refs: set[str] = set()

    def convert(self, schema: Any, source: SourceFile, depth: int) -> dict[str, Any]:
        has_work_left = self._work.spend(1)
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, dict) or depth > MAX_DEPTH or not has_work_left:
            return {}
        if _part_count(schema) > self._work.remaining:
            return {}
        if isinstance(schema.get("$ref"), str):
            return self._convert_ref(schema, source, depth)
        converted = self._convert_keywords(schema, source, depth)
        return _allow_null(converted) if _is_nullable(schema) else converted

    def _convert_ref(self, schema: dict[str, Any], source: SourceFile, depth: int) -> dict[str, Any]:
        located = self._document.find(schema["$ref"], source)
        if isinstance(located.value, bool):
            return self.convert(located.value, located.source, depth)
        if not isinstance(located.value, dict):
            raise UnusableOperation(f"The reference {schema['$ref']} does not lead to a schema.")
        name = self._converter.name_for(located)
        self.refs.add(name)
        reference: dict[str, Any] = {"$ref": f"{DEFS_PREFIX}{name}"}
        if not self._has_siblings:
            # Before version 3.1 nothing else counts beside a reference; a description does no harm.
            schema = {key: schema[key] for key in ("description", "nullable") if key in schema}
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        reference |= self._convert_keywords(siblings, source, depth) if siblings else {}
        return _allow_null(reference) if _is_nullable(schema) else reference

    def _convert_keywords(self, schema: dict[str, Any], source: SourceFile, depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        types = valid_types(schema.get("type"))
        if types:
            converted["type"] = types[0] if len(types) == 1 else types
        if description := clean_description(schema.get("description") or schema.get("title")):
            converted["description"] = description
            self._work.spend(len(description) // DESCRIPTION_CHARS_PER_WORK)
        add_values(schema, types, converted, self._work)
        self._add_schemas(schema, source, depth + 1, converted)
        return converted

    def _add_schemas(self, schema: dict[str, Any], source: SourceFile, depth: int, converted: dict[str, Any]) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            self._add_properties(properties, source, depth, converted)
        names = schema.get("required")
        if isinstance(names, list):
            converted_properties = converted.get("properties", {})
            known = properties if isinstance(properties, dict) else {}
            # A read-only property cannot be required of a request.
            required = [
                each for each in names if isinstance(each, str) and (each in converted_properties or each not in known)
            ]
            if required:
                converted["required"] = list(dict.fromkeys(required))
        items = schema.get("items")
        if isinstance(items, list):
            converted["prefixItems"] = [self.convert(each, source, depth) for each in items] or [{}]
        elif isinstance(items, (dict, bool)):
            converted["items"] = self.convert(items, source, depth)
        for keyword in _SCHEMA_LIST_KEYWORDS:
            parts = schema.get(keyword)
            if isinstance(parts, list) and parts:
                converted[keyword] = [self.convert(each, source, depth) for each in parts]
        for keyword in _SCHEMA_KEYWORDS:
            part = schema.get(keyword)
            if isinstance(part, bool) and keyword == "additionalProperties":
                converted[keyword] = part
            elif isinstance(part, dict):
                converted[keyword] = self.convert(part, source, depth)
        for keyword in _SCHEMA_MAP_KEYWORDS:
            parts = schema.get(keyword)
            if isinstance(parts, dict):
                has_patterns = keyword == "patternProperties"
                converted[keyword] = {
                    str(name): self.convert(each, source, depth)
                    for name, each in parts.items()
                    if not has_patterns or checked_pattern(str(name), self._work) is not None
                }

    def _add_properties(
        self, properties: dict[str, Any], source: SourceFile, depth: int, converted: dict[str, Any]
    ) -> None:
        visible = {
            str(name): self.convert(each, source, depth)
            for name, each in properties.items()
            if not self._is_hidden(each, source)
        }
        if visible or properties:
            converted["properties"] = visible

    def _is_hidden(self, schema: Any, source: SourceFile) -> bool:
        """Whether a property is read-only, in a schema for arguments."""
        if not isinstance(schema, dict):
            return False
        if schema.get(self._hidden_flag) is True:
            return True
        if "$ref" not in schema:
            return False
        value = self._document.resolve(schema, source).value
        return isinstance(value, dict) and value.get(self._hidden_flag) is True


def _part_count(schema: dict[str, Any]) -> int:
    """How many schemas and names a schema holds directly."""
    return sum(len(each) for keyword, each in schema.items() if keyword in _COUNTED_KEYWORDS and type(each) in _LISTS)


def _is_nullable(schema: dict[str, Any]) -> bool:
    return schema.get("nullable") is True or schema.get("x-nullable") is True


def _allow_null(converted: dict[str, Any]) -> dict[str, Any]:
    """The schema that accepts null, too."""
    types = converted.get("type")
    names = types if isinstance(types, list) else [types]
    is_plain = types is not None and not {"const", "allOf", "anyOf", "oneOf", "not", "$ref"} & converted.keys()
    if is_plain:
        nullable = {**converted, "type": list(dict.fromkeys([*names, "null"]))}
        if "enum" in nullable and None not in nullable["enum"]:
            nullable["enum"] = [*nullable["enum"], None]
        return nullable
    if not converted.keys() - {"description", "examples", "default"}:
        return converted  # it accepts everything already
    outside: dict[str, Any] = {key: converted[key] for key in ("description", "default") if key in converted}
    inside = {key: value for key, value in converted.items() if key not in outside}
    return {"anyOf": [inside, {"type": "null"}], **outside}
