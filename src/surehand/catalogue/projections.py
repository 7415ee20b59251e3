"""Projections: a tool's JSON Schema as the model APIs take it.

A projection may be looser than the schema, never narrower: a call is checked against the schema itself in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from surehand.core.schema import JSON

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_ONE = ("items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class Unshowable(Exception):
    """A tool that a model API cannot be shown; the message says why."""


def copied(value: Any) -> Any:
    """The same JSON in new lists and dicts, so that nobody's changes reach the tool."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value


def as_object(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy that says outright that it is an object, as MCP asks for."""
    _check_object(schema)
    return {**copied(schema), "type": "object"}


def _check_object(schema: Mapping[str, JSON]) -> None:
    if "object" not in _types(schema):
        raise Unshowable(f"its parameters are of type {schema.get('type')}, not an object")


def for_openai(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """An object with no choice at the top, and no array without `items`."""
    return _with_items(flat(schema))


def for_anthropic(schema: Mapping[str, JSON], *, foreign: bool) -> dict[str, JSON]:
    """An object with no choice at the top, valid by draft 2020-12; `foreign` schemas are not known to be that."""
    shown = _with_items(flat(schema))
    for name in shown["properties"]:
        if not _PROPERTY.match(name):
            raise Unshowable(f"its parameter {name!r} has characters other than letters, digits, `_`, `.` and `-`")
    if foreign:
        _check_draft(shown)
    return shown


def _check_draft(shown: dict[str, JSON]) -> None:
    import jsonschema_rs as js

    shown.pop("$schema", None)
    if not js.meta.is_valid(shown):
        raise Unshowable("its parameters are not valid by JSON Schema draft 2020-12")


def flat(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """An object schema whose top has no `$ref` and none of the words that combine schemas."""
    shown = _merged(dict(schema), schema, ())
    _check_object(shown)
    for word in ("enum", "const"):
        if word in shown:
            raise Unshowable(f"its parameters are a fixed value (`{word}`), not an object with properties")
    shown.pop("not", None)
    return copied({"type": "object", "properties": {}} | shown | {"type": "object"})  # type: ignore[no-any-return]


def _types(schema: Mapping[str, JSON]) -> list[Any]:
    kind = schema.get("type", "object")
    return kind if isinstance(kind, list) else [kind]


def _merged(schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]) -> dict[str, JSON]:
    schema, refs = dereferenced(schema, root, refs)
    for part in schema.pop("allOf", ()):
        schema = combined(schema, _merged(dict(part), root, refs))
    for word in ("anyOf", "oneOf"):
        if branches := schema.pop(word, None):
            schema = combined(schema, _any_of([_merged(dict(branch), root, refs) for branch in branches]))
    return schema


def _any_of(branches: list[dict[str, JSON]]) -> dict[str, JSON]:
    """One object that every branch fits: all their properties, and required what all of them require."""
    properties: dict[str, JSON] = {}
    for branch in branches:
        if "object" not in _types(branch):
            raise Unshowable("its parameters may be something other than an object")
        for name, field in branch.get("properties", {}).items():
            known = properties.setdefault(name, field)
            properties[name] = field if known == field else {"anyOf": [*_choices(known), field]}
    needed = [branch.get("required", ()) for branch in branches]
    required = [name for name in needed[0] if all(name in names for names in needed)]
    return {"properties": properties} | ({"required": required} if required else {})


def _choices(field: JSON) -> list[JSON]:
    return field["anyOf"] if isinstance(field, dict) and set(field) == {"anyOf"} else [field]


def combined(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> dict[str, JSON]:
    """What fits both: all properties, all that is required; otherwise the second has the say."""
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return both


def dereferenced(
    schema: dict[str, JSON], root: Mapping[str, JSON], refs: tuple[str, ...]
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """The schema with its `$ref` replaced by what it names, and the references followed so far."""
    while (ref := schema.get("$ref")) is not None:
        if ref in refs:
            raise Unshowable(f"its parameters refer to themselves ({ref})")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema, refs = combined(target(ref, root), beside), (*refs, ref)
    return schema, refs


def target(ref: Any, root: Mapping[str, JSON]) -> dict[str, JSON]:
    """What a local reference names."""
    from urllib.parse import unquote  # loaded on first use: most schemas refer to nothing

    found: Any = root
    path = unquote(ref[1:]).split("/")[1:] if isinstance(ref, str) and ref.startswith("#") else [""]
    for step in path:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise Unshowable(f"its parameters refer to {ref}, which is not there")
    return dict(found)


def _with_items(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Arrays as draft 2020-12 has them, each with `items`; changes the copy that it is given."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", {})
    if "array" in _types(schema):
        schema.setdefault("items", {})
    for inner in _inside(schema):
        _with_items(inner)
    return schema


def _inside(schema: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    """The schemas directly inside a schema; not the values that merely look like one, such as a default."""
    for word, value in schema.items():
        if word in _ONE:
            found: Any = (value,)
        elif word in _SEVERAL:
            found = value
        elif word in _NAMED and isinstance(value, dict):
            found = value.values()
        else:
            continue
        yield from (item for item in found if isinstance(item, dict))
