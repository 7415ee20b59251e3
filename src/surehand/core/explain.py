"""Why arguments were refused, told to a model so that its next try succeeds."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.jsontext import MalformedJson
from surehand.core.outline import describe_expected_arguments, property_names_at

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
