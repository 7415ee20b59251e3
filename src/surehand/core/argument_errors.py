"""Why arguments were refused, told to a model so that its next try succeeds."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import MalformedJson

MAX_NESTED_FIELDS = 8
"""Fields named of an object inside another."""


def describe_expected_arguments(schema: dict[str, Any]) -> str:
    """One sentence on what a tool takes."""
    required = set(schema.get("required", ()))
    fields = [
        f"{name} ({describe_field_type(field, schema)}{'' if name in required else ', optional'})"
        for name, field in islice(schema.get("properties", {}).items(), 20)
    ]
    return f"Expected: {', '.join(fields)}." if fields else "Expected: no arguments."


def describe_field_type(field: Any, schema: dict[str, Any], *, depth: int = 0) -> str:
    """What one field may be: `integer`, `string or null`, `one of 'a', 'b'`, `object: to, subject`."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict) or depth > 3:
        return "any"
    if "enum" in field or "const" in field:
        return "one of " + ", ".join(map(repr, field.get("enum", [field.get("const")])[:10]))
    for choice in ("anyOf", "oneOf"):
        if isinstance(field.get(choice), list):
            return " or ".join(
                dict.fromkeys(
                    describe_field_type(one, schema, depth=depth + 1) for one in field[choice][:MAX_NESTED_FIELDS]
                )
            )
    kind = field.get("type", "any")
    if kind == "array":
        return (
            f"array of {describe_field_type(field['items'], schema, depth=depth + 1)}" if "items" in field else "array"
        )
    if kind == "object" and depth < 2 and field.get("properties"):
        return "object: " + ", ".join(islice(field["properties"], MAX_NESTED_FIELDS))
    return kind if isinstance(kind, str) else " or ".join(map(str, kind))


def property_names_at(schema: dict[str, Any], path: Iterable[Any]) -> list[str]:
    """The names that are known at a place in the arguments."""
    field: Any = schema
    for step in path:
        field = _object_schema(field, schema)
        inner = field.get("items") if isinstance(step, int) else field.get("properties", {}).get(step)
        field = inner if isinstance(inner, dict) else {}
    return list(_object_schema(field, schema).get("properties", {}))


def _object_schema(field: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The field itself, or the first of its choices that has fields or items."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict):
        return {}
    choices = [_resolve_ref(one, schema) for one in field.get("anyOf") or field.get("oneOf") or ()]
    return next((one for one in choices if isinstance(one, dict) and ("properties" in one or "items" in one)), field)


def _resolve_ref(field: Any, schema: dict[str, Any]) -> Any:
    ref = field.get("$ref") if isinstance(field, dict) else None
    if not isinstance(ref, str):
        return field
    return schema.get("$defs", schema.get("definitions", {})).get(ref.rpartition("/")[2], {})


MAX_PROBLEMS_SHOWN = 5
MAX_PROBLEMS_COLLECTED = 10_000
"""Mistakes that can be told of one by one: to look at the first, all have to be written down."""


def explain_validation_error(error: Any, schema: dict[str, Any]) -> InvalidArguments:
    """A pydantic ValidationError in words."""
    if (count := error.error_count()) > MAX_PROBLEMS_COLLECTED:
        return InvalidArguments(
            f"invalid arguments: {count} mistakes, too many to list. {describe_expected_arguments(schema)}"
        )
    problems = error.errors(include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return _malformed_json(problems[0]["msg"])
    shown = [_describe_problem(problem, schema) for problem in problems[:MAX_PROBLEMS_SHOWN]]
    return _invalid_arguments(shown, len(problems), schema)


def _malformed_json(message: str) -> InvalidArguments:
    reason = message.removeprefix("Invalid JSON: ")
    if "recursion limit" in reason:
        return InvalidArguments("The JSON is nested deeper than 200 levels. Send a flatter value.")
    return MalformedJson(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def _describe_problem(problem: dict[str, Any], schema: dict[str, Any]) -> str:
    where = _format_path(problem["loc"])
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"`{where}` is not a parameter{_did_you_mean(problem['loc'], schema)}"
    if problem["type"] == "missing":
        return f"`{where}` is required"
    return f"`{where}`: {problem['msg']}, not {short_repr(problem['input'])}"


def _did_you_mean(path: tuple[Any, ...], schema: dict[str, Any]) -> str:
    """The nearest name that is known in that place."""
    *before, last = path
    known = {name.lower(): name for name in property_names_at(schema, before)}
    near = get_close_matches(str(last).lower(), known, 1)
    return f" (did you mean `{_format_path([*before, known[near[0]]])}`?)" if near else ""


def explain_schema_errors(errors: Iterable[Any], values: Any, schema: dict[str, Any]) -> InvalidArguments:
    """Errors of a JSON Schema validator in words."""
    found = list(islice(errors, MAX_PROBLEMS_SHOWN + 1))
    shown = [_describe_schema_error(e) for e in found[:MAX_PROBLEMS_SHOWN]]
    return _invalid_arguments(shown, len(found), schema)


def _describe_schema_error(error: Any) -> str:
    """In the words that are used of a Python function, where something is missing."""
    path, message = list(error.instance_path), str(error.message)
    if message.endswith(_REQUIRED_SUFFIX):
        return f"`{_format_path([*path, message.removesuffix(_REQUIRED_SUFFIX)[1:-1]])}` is required"
    return f"`{_format_path(path)}`: {_shorten(message)}"


_REQUIRED_SUFFIX = " is a required property"


def _format_path(path: Iterable[Any]) -> str:
    return _shorten(".".join(map(str, path))) or "arguments"


def _invalid_arguments(problems: list[str], count: int, schema: dict[str, Any]) -> InvalidArguments:
    more = f"; and {count - MAX_PROBLEMS_SHOWN} more" if count > MAX_PROBLEMS_SHOWN else ""
    return InvalidArguments(f"invalid arguments: {'; '.join(problems)}{more}. {describe_expected_arguments(schema)}")


def short_repr(value: Any, max_chars: int = 120) -> str:
    """A value on one line, cut where it is long or deep: it may be without end."""
    short = _ShortRepr()
    short.maxstring = short.maxother = short.maxlong = max_chars
    short.maxdict = short.maxlist = short.maxtuple = short.maxset = 8
    return _shorten(short.repr(value), max_chars)


class _ShortRepr(Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        try:
            return _shorten(repr(x), self.maxother)
        except Exception:  # noqa: BLE001 - a value whose repr fails must not hide the real mistake
            return f"<{type(x).__name__}>"


def _shorten(text: str, max_chars: int = 240) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 20]}...{text[-15:]}"


def coerce_arguments(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The gentle conversions that models need most: numbers and booleans that came as strings."""
    fields = schema.get("properties", {})
    return {name: _coerce_value(value, fields.get(name)) for name, value in values.items()}


def _coerce_value(value: Any, field: Any) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    try:
        match kind:
            case "integer":
                return int(value)
            case "number":
                return float(value) if float(value) - float(value) == 0 else value
            case "boolean":
                return {"true": True, "false": False}.get(value.lower(), value)
    except ValueError:
        pass
    return value
