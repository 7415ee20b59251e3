"""Why arguments were refused, told to a model so that its next try succeeds."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import Any

from toolwright.core.errors import InvalidArguments
from toolwright.core.jsontext import Malformed

MAX_SHOWN = 5


def explain(error: Any, schema: dict[str, Any]) -> InvalidArguments:
    """A pydantic ValidationError in words."""
    problems = error.errors(include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return _malformed(problems[0]["msg"])
    names = list(schema.get("properties", {}))
    shown = [_problem(problem, names) for problem in problems[:MAX_SHOWN]]
    return _refused(shown, len(problems), schema)


def _malformed(message: str) -> InvalidArguments:
    reason = message.removeprefix("Invalid JSON: ")
    if "recursion limit" in reason:
        return InvalidArguments("The JSON is nested deeper than 200 levels. Send a flatter value.")
    return Malformed(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def _problem(problem: dict[str, Any], names: list[str]) -> str:
    where = _cut(".".join(map(str, problem["loc"]))) or "arguments"
    if problem["type"] == "extra_forbidden" or problem["type"] == "unexpected_keyword_argument":
        near = get_close_matches(where, names, 1)
        return f"`{where}` is not a parameter{f' (did you mean `{near[0]}`?)' if near else ''}"
    if problem["type"] == "missing":
        return f"`{where}` is required"
    return f"`{where}`: {problem['msg']}, not {preview(problem['input'])}"


def explain_schema(errors: Iterable[Any], values: Any, schema: dict[str, Any]) -> InvalidArguments:
    """Errors of a JSON Schema validator in words."""
    found = list(islice(errors, MAX_SHOWN + 1))
    shown = [f"`{'.'.join(map(str, e.instance_path)) or 'arguments'}`: {_cut(e.message)}" for e in found[:MAX_SHOWN]]
    return _refused(shown, len(found), schema)


def _refused(shown: list[str], count: int, schema: dict[str, Any]) -> InvalidArguments:
    more = f"; and {count - MAX_SHOWN} more" if count > MAX_SHOWN else ""
    return InvalidArguments(f"invalid arguments: {'; '.join(shown)}{more}. {_expected(schema)}")


def _expected(schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    fields = [
        f"{name} ({_type_of(field)}{'' if name in required else ', optional'})"
        for name, field in islice(schema.get("properties", {}).items(), 20)
    ]
    return f"Expected: {', '.join(fields)}." if fields else "Expected: no arguments."


def _type_of(field: Any) -> str:
    if not isinstance(field, dict):
        return "any"
    if "enum" in field:
        return "one of " + ", ".join(map(repr, field["enum"][:10]))
    kind = field.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(map(str, kind))


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
