"""Error messages for invalid arguments, written for a model so that its next call succeeds.

The parameters of a tool (`schema.py`, `raw_schema.py`) use it: it turns the errors of pydantic and jsonschema-rs into
one `InvalidArguments`, adds an outline of the expected arguments, and coerces strings to numbers and booleans.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from reprlib import Repr
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import MalformedJson

MAX_PARAMETERS_LISTED = 20
MAX_VALUES_LISTED = 10
"""Allowed values of a field that the outline of a schema lists."""
MAX_NESTED_FIELDS = 8
"""Fields of a nested object, alternatives of a field, or items of a quoted value that a message lists."""
MAX_PROBLEMS_SHOWN = 5
MAX_PROBLEMS_COLLECTED = 10_000
"""Above this number no problem is shown: pydantic would have to build all of them to give the first."""
_UNKNOWN_KEY_PROBLEMS = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_KEY_PROBLEMS = frozenset({"missing", *_UNKNOWN_KEY_PROBLEMS})
"""Types of pydantic's problems that are about a key of an object, not about a value."""
_FORMAT_EXAMPLES = {
    "date": "2026-12-31", "date-time": "2026-12-31T12:30:00Z", "time": "12:30:00", "duration": "PT15M",
}  # fmt: skip
"""Formats of strings that a model cannot guess from the word `string`."""
MAX_SCHEMA_ERRORS = 100
"""Errors of a JSON Schema validator that are looked at."""


def describe_expected_arguments(schema: dict[str, Any]) -> str:
    """One sentence that lists the parameters of a tool with their types."""
    required = set(schema.get("required", ()))
    fields = [
        f"{name} ({describe_field_type(field, schema)}{'' if name in required else ', optional'})"
        for name, field in islice(schema.get("properties", {}).items(), MAX_PARAMETERS_LISTED)
    ]
    return f"Expected: {', '.join(fields)}." if fields else "Expected: no arguments."


def describe_field_type(field: Any, schema: dict[str, Any], *, depth: int = 0) -> str:
    """The type of one field: `integer`, `string like 2026-12-31`, `one of 'a', 'b'`, `object: to, subject`."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict) or depth > 3:
        return "any"
    if "enum" in field or "const" in field:
        values = field.get("enum", [field.get("const")])
        return "one of " + ", ".join(map(repr, values[:MAX_VALUES_LISTED]))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(field.get(keyword), list):
            choices = field[keyword][:MAX_NESTED_FIELDS]
            types = [describe_field_type(choice, schema, depth=depth + 1) for choice in choices]
            return " or ".join(dict.fromkeys(types))
    json_type = field.get("type", "any")
    if json_type == "array" and "items" in field:
        return f"array of {describe_field_type(field['items'], schema, depth=depth + 1)}"
    if json_type == "object" and depth < 2 and field.get("properties"):
        return "object: " + ", ".join(islice(field["properties"], MAX_NESTED_FIELDS))
    text_format = field.get("format")
    if json_type == "string" and isinstance(text_format, str) and text_format in _FORMAT_EXAMPLES:
        return f"string like {_FORMAT_EXAMPLES[text_format]}"
    return json_type if isinstance(json_type, str) else " or ".join(map(str, json_type))


def property_names_at(schema: dict[str, Any], path: Iterable[Any]) -> list[str]:
    """The property names that the schema knows at a path in the arguments."""
    return list(object_schema_at(schema, path).get("properties", {}))


def object_schema_at(schema: dict[str, Any], path: Iterable[Any]) -> dict[str, Any]:
    """The schema of the object at a path in the arguments; empty where the schema says nothing."""
    field: Any = schema
    for step in path:
        field = _object_schema(field, schema)
        inner = field.get("items") if isinstance(step, int) else field.get("properties", {}).get(step)
        field = inner if isinstance(inner, dict) else {}
    return _object_schema(field, schema)


def _object_schema(field: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The first of the field's choices that has properties or items, else the field itself."""
    field = _resolve_ref(field, schema)
    if not isinstance(field, dict):
        return {}
    choices = [_resolve_ref(choice, schema) for choice in field.get("anyOf") or field.get("oneOf") or ()]
    for choice in choices:
        if isinstance(choice, dict) and ("properties" in choice or "items" in choice):
            return choice
    return field


def _resolve_ref(field: Any, schema: dict[str, Any]) -> Any:
    ref = field.get("$ref") if isinstance(field, dict) else None
    if not isinstance(ref, str):
        return field
    definitions = schema.get("$defs", schema.get("definitions", {}))
    return definitions.get(ref.rpartition("/")[2], {})


def explain_validation_error(error: Any, schema: dict[str, Any], values: Any = None) -> InvalidArguments:
    """The message for a pydantic `ValidationError` about these values, if they could be read."""
    count = error.error_count()
    if count > MAX_PROBLEMS_COLLECTED:
        expected = describe_expected_arguments(schema)
        return InvalidArguments(f"invalid arguments: {count} mistakes, too many to list. {expected}")
    problems = error.errors(include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return _malformed_json(problems[0]["msg"])
    merged = _merge_union_problems(problems, values)
    descriptions = [(_format_path(problem["loc"]), _describe_problem(problem, schema)) for problem in merged]
    return _invalid_arguments(descriptions, schema)


def _malformed_json(message: str) -> InvalidArguments:
    reason = message.removeprefix("Invalid JSON: ")
    if "recursion limit" in reason:
        return InvalidArguments("The JSON is nested deeper than 200 levels. Send a flatter value.")
    return MalformedJson(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def _merge_union_problems(problems: list[dict[str, Any]], values: Any) -> list[dict[str, Any]]:
    """One problem for a value that fits none of a union's types: pydantic reports one for each type."""
    merged: list[dict[str, Any]] = []
    union_positions: dict[tuple[Any, ...], int] = {}
    for problem in problems:
        path = _path_without_types(problem, values)
        if len(path) == len(problem["loc"]):  # no union: two problems of one value are two mistakes
            merged.append(problem)
        elif path not in union_positions:
            union_positions[path] = len(merged)
            merged.append({**problem, "loc": path})
        else:
            position = union_positions[path]
            alternative = problem["msg"].removeprefix("Input should be ")
            merged[position] = {**merged[position], "msg": f"{merged[position]['msg']} or {alternative}"}
    return merged


def _path_without_types(problem: dict[str, Any], values: Any) -> tuple[Any, ...]:
    """The path of the value that a problem is about, without the names of a union's types that pydantic adds."""
    path: tuple[Any, ...] = problem["loc"]
    current = values
    for length, step in enumerate(path):
        is_in_dict = isinstance(current, dict) and step in current
        is_in_list = isinstance(current, list) and isinstance(step, int) and step < len(current)
        if is_in_dict or is_in_list:
            current = current[step]
            continue
        is_value_itself = problem["type"] not in _KEY_PROBLEMS and type(current) is type(problem["input"])
        return path[:length] if length and is_value_itself else path
    return path


def _describe_problem(problem: dict[str, Any], schema: dict[str, Any]) -> str:
    path = _format_path(problem["loc"])
    if problem["type"] in _UNKNOWN_KEY_PROBLEMS:
        return f"`{path}` is not a parameter{_did_you_mean(problem['loc'], schema)}"
    if problem["type"] == "missing":
        return f"`{path}` is required"
    return f"`{path}`: {problem['msg']}, not {short_repr(problem['input'])}"


def _did_you_mean(path: tuple[Any, ...], schema: dict[str, Any]) -> str:
    """A suggestion: the known name at that path that is most like the given one."""
    *parents, given_name = path
    known_names = {name.lower(): name for name in property_names_at(schema, parents)}
    # Here, because it takes a twentieth of the time of `import surehand`, and only invalid calls need it.
    from difflib import get_close_matches

    matches = get_close_matches(str(given_name).lower(), known_names, 1)
    if not matches:
        return ""
    return f" (did you mean `{_format_path([*parents, known_names[matches[0]]])}`?)"


def explain_schema_errors(errors: Iterable[Any], schema: dict[str, Any]) -> InvalidArguments:
    """The message for the errors of a jsonschema-rs validator."""
    first_errors = list(islice(errors, MAX_SCHEMA_ERRORS))
    wrong_types = {tuple(error.instance_path) for error in first_errors if error.kind.name == "type"}
    problems: list[tuple[str, str]] = []
    for error in first_errors:
        # A value of the wrong type breaks further rules as well, such as `enum`: that is one mistake.
        if error.kind.name == "type" or tuple(error.instance_path) not in wrong_types:
            problems += _describe_schema_error(error, schema)
    return _invalid_arguments(problems, schema)


def _describe_schema_error(error: Any, schema: dict[str, Any]) -> list[tuple[str, str]]:
    """The path and description of each mistake in an error. They read as they do for a Python function."""
    path = list(error.instance_path)
    match error.kind.name:
        case "required":
            return [(_format_path(path), f"`{_format_path([*path, error.kind.property])}` is required")]
        case "additionalProperties" | "unevaluatedProperties":
            return [_describe_unknown_name((*path, name), schema) for name in error.kind.unexpected]
        case "propertyNames" if not path and (name := error.kind.error.instance) not in schema.get("properties", {}):
            return [_describe_unknown_name((name,), schema)]
    return [(_format_path(path), f"`{_format_path(path)}`: {_shorten(str(error.message))}")]


def _describe_unknown_name(path: tuple[Any, ...], schema: dict[str, Any]) -> tuple[str, str]:
    return _format_path(path), f"`{_format_path(path)}` is not a parameter{_did_you_mean(path, schema)}"


def _format_path(path: Iterable[Any]) -> str:
    return _shorten(".".join(map(str, path))) or "arguments"


def _invalid_arguments(problems: list[tuple[str, str]], schema: dict[str, Any]) -> InvalidArguments:
    """The error for problems, each a path and a description, without duplicates; programs find them in its `data`."""
    unique = list(dict.fromkeys(problems))
    shown = unique[:MAX_PROBLEMS_SHOWN]
    more = f"; and {len(unique) - len(shown)} more" if len(unique) > len(shown) else ""
    listed = "; ".join(description for _, description in shown)
    issues = [{"path": path, "message": description} for path, description in shown]
    message = f"invalid arguments: {listed}{more}. {describe_expected_arguments(schema)}"
    return InvalidArguments(message, data={"issues": issues})


def short_repr(value: Any, max_chars: int = 120) -> str:
    """The repr of a value on one line, cut where it is long or deep; a value that contains itself is safe."""
    short = _ShortRepr()
    short.maxstring = max_chars
    short.maxother = max_chars
    short.maxlong = max_chars
    short.maxdict = MAX_NESTED_FIELDS
    short.maxlist = MAX_NESTED_FIELDS
    short.maxtuple = MAX_NESTED_FIELDS
    short.maxset = MAX_NESTED_FIELDS
    return _shorten(short.repr(value), max_chars)


class _ShortRepr(Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        try:
            return _shorten(repr(x), self.maxother)
        except Exception:  # noqa: BLE001 - a value whose repr raises must not hide the error in the arguments
            return f"<{type(x).__name__}>"


def _shorten(text: str, max_chars: int = 240) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 20]}...{text[-15:]}"


def coerce_arguments(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the numbers and booleans that models often send as strings; all other values stay."""
    fields = schema.get("properties", {})
    return {name: _coerce_value(value, fields.get(name)) for name, value in values.items()}


def _coerce_value(value: Any, field: Any) -> Any:
    json_type = field.get("type") if isinstance(field, dict) else None
    if json_type == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    try:
        match json_type:
            case "integer":
                return int(value)
            case "number":
                number = float(value)
                is_finite = number - number == 0  # inf - inf and nan - nan are nan
                return number if is_finite else value
            case "boolean":
                return {"true": True, "false": False}.get(value.lower(), value)
    except ValueError:
        pass
    return value
