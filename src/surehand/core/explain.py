"""Why arguments were refused, told to a model so that its next try succeeds."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.jsontext import Malformed
from surehand.core.outline import expected, names_at

MAX_SHOWN = 5
MAX_LISTED = 10_000
"""Mistakes that can be told of one by one: to look at the first, all have to be written down."""


def explain(error: Any, schema: dict[str, Any]) -> InvalidArguments:
    """A pydantic ValidationError in words."""
    if (count := error.error_count()) > MAX_LISTED:
        return InvalidArguments(f"invalid arguments: {count} mistakes, too many to list. {expected(schema)}")
    problems = error.errors(include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return _malformed(problems[0]["msg"])
    shown = [_problem(problem, schema) for problem in problems[:MAX_SHOWN]]
    return _refused(shown, len(problems), schema)


def _malformed(message: str) -> InvalidArguments:
    reason = message.removeprefix("Invalid JSON: ")
    if "recursion limit" in reason:
        return InvalidArguments("The JSON is nested deeper than 200 levels. Send a flatter value.")
    return Malformed(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def _problem(problem: dict[str, Any], schema: dict[str, Any]) -> str:
    where = _where(problem["loc"])
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"`{where}` is not a parameter{_hint(problem['loc'], schema)}"
    if problem["type"] == "missing":
        return f"`{where}` is required"
    return f"`{where}`: {problem['msg']}, not {preview(problem['input'])}"


def _hint(path: tuple[Any, ...], schema: dict[str, Any]) -> str:
    """The nearest name that is known in that place."""
    *before, last = path
    known = {name.lower(): name for name in names_at(schema, before)}
    near = get_close_matches(str(last).lower(), known, 1)
    return f" (did you mean `{_where([*before, known[near[0]]])}`?)" if near else ""


def explain_schema(errors: Iterable[Any], values: Any, schema: dict[str, Any]) -> InvalidArguments:
    """Errors of a JSON Schema validator in words."""
    found = list(islice(errors, MAX_SHOWN + 1))
    shown = [_told(e) for e in found[:MAX_SHOWN]]
    return _refused(shown, len(found), schema)


def _told(error: Any) -> str:
    """In the words that are used of a Python function, where something is missing."""
    path, message = list(error.instance_path), str(error.message)
    if message.endswith(_MISSING):
        return f"`{_where([*path, message.removesuffix(_MISSING)[1:-1]])}` is required"
    return f"`{_where(path)}`: {_cut(message)}"


_MISSING = " is a required property"


def _where(path: Iterable[Any]) -> str:
    return _cut(".".join(map(str, path))) or "arguments"


def _refused(shown: list[str], count: int, schema: dict[str, Any]) -> InvalidArguments:
    more = f"; and {count - MAX_SHOWN} more" if count > MAX_SHOWN else ""
    return InvalidArguments(f"invalid arguments: {'; '.join(shown)}{more}. {expected(schema)}")


def preview(value: Any, limit: int = 120) -> str:
    """A value on one line, cut where it is long or deep: it may be without end."""
    short = _Short()
    short.maxstring = short.maxother = short.maxlong = limit
    short.maxdict = short.maxlist = short.maxtuple = short.maxset = 8
    return _cut(short.repr(value), limit)


class _Short(Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        try:
            return _cut(repr(x), self.maxother)
        except Exception:  # noqa: BLE001 - a value whose repr fails must not hide the real mistake
            return f"<{type(x).__name__}>"


def _cut(text: str, limit: int = 240) -> str:
    return text if len(text) <= limit else f"{text[: limit - 20]}...{text[-15:]}"


def coerce(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The gentle conversions that models need most: numbers and booleans that came as strings."""
    fields = schema.get("properties", {})
    return {name: _coerced(value, fields.get(name)) for name, value in values.items()}


def _coerced(value: Any, field: Any) -> Any:
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
