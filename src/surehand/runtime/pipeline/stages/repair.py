"""Repair: corrects arguments that are not valid JSON, if they can mean only one thing. Used by the stage `validate`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from operator import is_
from typing import Any

from surehand.core.call import Arguments
from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import MalformedJson, decode_utf8, parse_json, validate_json_value
from surehand.core.tool import Tool

MAX_REPAIR_CHARACTERS = 50_000
MAX_REPAIR_WORK = 1_000_000
"""Limit on length times escaped quotes: json-repair is quadratic in them, ten kilobytes take a second."""
MAX_UNPACKED_VALUES = 50_000
"""Estimated limit on values that are parsed from strings that contain JSON; the usual limits did not count them."""
_CLOSED_END_PATTERN = re.compile(r'["\]}]\s*\Z')
_STRING_LITERAL_PATTERN = re.compile(r"""\"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'""", re.DOTALL)
_BARE_WORD_PATTERN = re.compile(r"(?<![\w.])[^\W\d]\w*+(?!\s*:)")
_ENCODED_JSON_PATTERN = re.compile(r'"(?:\s|\\[nrt])*+["\[{\\]')
"""Finds a string that may contain JSON."""
_LITERAL_WORDS = frozenset({"true", "false", "null", "True", "False", "None"})


def repair_arguments(tool: Tool[..., Any], raw_arguments: Arguments, error: InvalidArguments) -> dict[str, Any]:
    """Repair and validate arguments; raises the original error if that is not possible."""
    if isinstance(raw_arguments, bytes):
        raw_arguments = decode_utf8(raw_arguments)
    if isinstance(raw_arguments, str) and not raw_arguments.strip():
        return tool.validate_arguments({})
    is_malformed = isinstance(error, MalformedJson)
    if isinstance(raw_arguments, str) and not is_malformed and not _ENCODED_JSON_PATTERN.search(raw_arguments):
        raise error
    if isinstance(raw_arguments, str) and is_malformed:
        values = _repair_text(raw_arguments, tool, error)
    else:
        values = _parse_or_raise(raw_arguments, error)
    unpacked = _unpack_values(values, error)
    if unpacked is None:
        raise error
    is_unchanged = isinstance(values, dict) and all(map(is_, unpacked.values(), values.values()))
    if is_unchanged and not is_malformed:
        raise error
    try:
        return tool.validate_arguments(unpacked)
    except InvalidArguments:
        raise error from None


def _parse_or_raise(raw_arguments: Arguments, error: InvalidArguments) -> Any:
    if not isinstance(raw_arguments, str):
        return raw_arguments
    try:
        return parse_json(raw_arguments)
    except InvalidArguments:
        raise error from None


def _unpack_values(values: Any, error: InvalidArguments) -> dict[str, Any] | None:
    """Parse arguments that were JSON-encoded twice, as a whole or value by value; None if they are no object."""
    if isinstance(values, str):
        values = None if _has_too_many_values([values]) else _parse_or_raise(values, error)
    if not isinstance(values, dict) or _has_too_many_values(values.values()):
        return None
    return {name: _parse_if_encoded(value) for name, value in values.items()}


def _has_too_many_values(values: Iterable[Any]) -> bool:
    strings = [value for value in values if isinstance(value, str)]
    return sum(string.count(mark) for string in strings for mark in ",[{") > MAX_UNPACKED_VALUES


def _parse_if_encoded(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value)
    except InvalidArguments:
        return value


def _repair_text(text: str, tool: Tool[..., Any], error: InvalidArguments) -> Any:
    """Repair malformed JSON with json-repair; raises the error if the result may differ from what was meant."""
    escaped = text.count('\\"') + text.count("\\'")
    if len(text) > MAX_REPAIR_CHARACTERS or len(text) * escaped > MAX_REPAIR_WORK or "\\u" in text:
        raise error
    from json_repair import loads  # loaded on first use

    completeness = _completeness(text)
    if not completeness:
        raise error
    try:
        values = loads(text)
        validate_json_value(values)
    except (InvalidArguments, RecursionError, ValueError):
        raise error from None
    if not isinstance(values, dict) or not _keeps_every_key(text, values) or not _keeps_every_string(text, values):
        raise error
    if completeness == "cut" and _may_be_incomplete(values, tool.schema):
        raise error
    return values


def _completeness(text: str) -> str:
    """Whether the text is `whole`, or `cut` after a value; empty if completing it would mean guessing a value."""
    outside = _STRING_LITERAL_PATTERN.sub("", text[max(text.find("{"), 0) :])
    if '"' in outside or "'" in outside:  # a string without its closing quote
        return ""
    words = _BARE_WORD_PATTERN.findall(outside[: outside.rfind("}") + 1] or outside)
    if not _LITERAL_WORDS.issuperset(words):  # a string without quotes
        return ""
    depth = sum(outside.count(bracket) for bracket in "{[") - sum(outside.count(bracket) for bracket in "}]")
    if depth <= 0:
        return "whole"
    return "cut" if depth == 1 and _CLOSED_END_PATTERN.search(text) else ""


def _may_be_incomplete(values: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether another argument may have followed where the text was cut off."""
    missing = set(schema.get("properties", ())) - values.keys()
    return schema.get("additionalProperties", True) is not False or bool(missing)


def _keeps_every_key(text: str, values: Any) -> bool:
    """Whether every colon of the text is in a key or a string: no key was dropped or given twice."""
    level = [values]
    expected = 0
    while level:
        expected += sum(len(item) for item in level if isinstance(item, dict))
        expected += sum(item.count(":") for item in level if isinstance(item, str))
        level = [child for item in level for child in _children(item)]
    return text.count(":") == expected


def _keeps_every_string(text: str, values: dict[str, Any]) -> bool:
    """Whether every string is literally in the text: json-repair drops code fences and joins adjacent strings."""
    literals = _STRING_LITERAL_PATTERN.findall(text[max(text.find("{"), 0) :])
    written = {_decode_literal(literal) for literal in literals}
    level: list[Any] = [values]
    while level:
        if any(isinstance(item, str) and item not in written for item in level):
            return False
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else _children(item))]
    return True


def _decode_literal(literal: str) -> str:
    body = literal[1:-1]
    if literal[0] == "'":
        body = body.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError:
        return body


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []
