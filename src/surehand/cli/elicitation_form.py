"""Forms: what a server asks a person, field by field."""

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
"""No, also to a form that has a field `action` of its own."""


def render_form(request: Any) -> Text | None:
    """A question of an MCP server in few words; None for anything else."""
    match request:
        case {"mode": "form", "schema": Mapping() as schema} if is_yes_no_form(request):
            more = (
                f" To fill something in, answer with JSON, such as {_sample_answer(schema)}."
                if _properties(schema)
                else ""
            )
            return _join_lines([*_describe_fields(schema), f"Answer `true` for yes, `false` for no.{more}"])
        case {"mode": "form", "schema": Mapping() as schema}:
            return _join_lines(
                [*_describe_fields(schema), f"Answer with JSON, such as {_sample_answer(schema)}. {DECLINE_HINT}"]
            )
        case {"mode": "url", "url": str() as url}:
            return _join_lines([f"Open {url}", f"Answer `true` when you have been there. {DECLINE_HINT}"])
        case {"mode": "several", "requests": Mapping() as requests}:
            parts = [_render_part(key, each) for key, each in requests.items()]
            return Text("\n").join([*parts, Text(f"Answer by name: {{{', '.join(map(json.dumps, requests))}: ...}}.")])
    return None


def is_yes_no_form(request: Any) -> bool:
    """Whether a question can be answered with yes or no: a form in which nothing has to be filled in."""
    match request:
        case {"mode": "form", "schema": Mapping() as schema}:
            return not schema.get("required")
    return False


def accept_answer(request: Mapping[str, Any], *, always: bool) -> dict[str, Any] | None:
    """Yes to such a form, perhaps for good; None if it has no box for that."""
    box = _properties(request["schema"]).get("always")
    if always and not (isinstance(box, Mapping) and box.get("type") == "boolean"):
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
        needed = "" if name in required else ", may be left out"
        told = " - ".join(str(field[key]) for key in ("title", "description") if isinstance(field.get(key), str))
        yield f"  {name} ({_describe_type(field)}{needed}){f': {told}' if told else ''}"


def _describe_type(field: Mapping[str, Any]) -> str:
    several = field.get("items") if field.get("type") == "array" else None
    choices = _choices(several if isinstance(several, Mapping) else field)
    kind = f"{'some' if several else 'one'} of {', '.join(choices)}" if choices else str(field.get("type", "anything"))
    return f"{kind}, {json.dumps(field['default'])} unless given" if "default" in field else kind


def _choices(field: Mapping[str, Any]) -> list[str]:
    titled = next((field[key] for key in ("oneOf", "anyOf") if isinstance(field.get(key), list)), None)
    if titled is None:
        return [json.dumps(value) for value in field.get("enum", ())]
    return [json.dumps(each.get("const")) for each in titled if isinstance(each, Mapping)]


def _sample_answer(schema: Mapping[str, Any]) -> str:
    fields = _properties(schema)
    wanted = [name for name in fields if name in schema.get("required", ())] or list(fields)[:1]
    return json.dumps({name: _sample_value(fields[name]) for name in wanted})


def _sample_value(field: Mapping[str, Any]) -> Any:
    choices = _choices(field)
    return json.loads(choices[0]) if choices else _SAMPLE_VALUES.get(str(field.get("type")), "...")


def _join_lines(lines: Iterable[str]) -> Text:
    return Text("\n".join(escape_unprintable(line) for line in lines))
