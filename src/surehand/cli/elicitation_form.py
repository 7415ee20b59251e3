"""Renders the questions (elicitations) of MCP servers for a person, and builds yes and no answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

from surehand.cli.formatting import to_one_line
from surehand.core.sanitize import escape_unprintable

_SAMPLE_VALUES = {"string": "...", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
DECLINE_HINT = '{"action": "decline"} says no.'
DECLINE_ANSWER = {"action": "decline", "content": {}}
"""A no that is also valid for a form with a field named `action`."""


def render_form(request: Any) -> Text | None:
    """Render a question of an MCP server; None for any other request."""
    match request:
        case {"mode": "form", "schema": Mapping() as schema} if is_yes_no_form(request):
            hint = "Answer `true` for yes, `false` for no."
            if _properties(schema):
                hint += f" To fill in a field, answer with JSON, such as {_sample_answer(schema)}."
            return _join_lines([*_describe_fields(schema), hint])
        case {"mode": "form", "schema": Mapping() as schema}:
            hint = f"Answer with JSON, such as {_sample_answer(schema)}. {DECLINE_HINT}"
            return _join_lines([*_describe_fields(schema), hint])
        case {"mode": "url", "url": str() as url}:
            return _join_lines([f"Open {url}", f"Answer `true` when you are done there. {DECLINE_HINT}"])
        case {"mode": "several", "requests": Mapping() as requests}:
            parts = [_render_part(key, each) for key, each in requests.items()]
            names = ", ".join(map(json.dumps, requests))
            return Text("\n").join([*parts, Text(f"Answer by name: {{{names}: ...}}.")])
    return None


def is_yes_no_form(request: Any) -> bool:
    """Whether yes or no can answer the question: a form without required fields."""
    match request:
        case {"mode": "form", "schema": Mapping() as schema}:
            return not schema.get("required")
    return False


def accept_answer(request: Mapping[str, Any], *, always: bool) -> dict[str, Any] | None:
    """The yes to such a form; None if `always` is wanted and the form has no such checkbox."""
    checkbox = _properties(request["schema"]).get("always")
    if always and not (isinstance(checkbox, Mapping) and checkbox.get("type") == "boolean"):
        return None
    return {"action": "accept", "content": {"always": True} if always else {}}


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = schema.get("properties")
    return fields if isinstance(fields, Mapping) else {}


def _render_part(key: str, request: Any) -> Text:
    return Text.assemble((f"{to_one_line(key)}: ", "bold"), render_form(request) or "")


def _describe_fields(schema: Mapping[str, Any]) -> Iterable[str]:
    required = schema.get("required", ())
    for name, field in _properties(schema).items():
        optional = "" if name in required else ", optional"
        texts = [field[key] for key in ("title", "description") if isinstance(field.get(key), str)]
        description = f": {' - '.join(texts)}" if texts else ""
        yield f"  {name} ({_describe_type(field)}{optional}){description}"


def _describe_type(field: Mapping[str, Any]) -> str:
    items = field.get("items") if field.get("type") == "array" else None
    choices = _choices(items if isinstance(items, Mapping) else field)
    description = str(field.get("type", "anything"))
    if choices:
        description = f"{'some' if items else 'one'} of {', '.join(choices)}"
    if "default" in field:
        description += f", default {json.dumps(field['default'])}"
    return description


def _choices(field: Mapping[str, Any]) -> list[str]:
    """The values of a field with a closed set of them, as JSON."""
    titled_choices = next((field[key] for key in ("oneOf", "anyOf") if isinstance(field.get(key), list)), None)
    if titled_choices is None:
        return [json.dumps(value) for value in field.get("enum", ())]
    return [json.dumps(each.get("const")) for each in titled_choices if isinstance(each, Mapping)]


def _sample_answer(schema: Mapping[str, Any]) -> str:
    fields = _properties(schema)
    names = [name for name in fields if name in schema.get("required", ())] or list(fields)[:1]
    return json.dumps({name: _sample_value(fields[name]) for name in names})


def _sample_value(field: Mapping[str, Any]) -> Any:
    choices = _choices(field)
    return json.loads(choices[0]) if choices else _SAMPLE_VALUES.get(str(field.get("type")), "...")


def _join_lines(lines: Iterable[str]) -> Text:
    return Text("\n".join(escape_unprintable(line) for line in lines))
