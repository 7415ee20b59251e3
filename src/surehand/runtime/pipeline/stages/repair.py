"""Repair: arguments that plain parsing refuses, mended where exactly one meaning is possible."""

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

MAX_REPAIR_CHARACTERS, MAX_REPAIR_WORK = 50_000, 1_000_000
"""json-repair is quadratic in escaped quotes; ten kilobytes of them take a second."""
MAX_UNPACKED_VALUES = 50_000
"""About as many values are read in texts that may be JSON themselves: they came as texts, and nobody has counted."""
_CLOSED_END_PATTERN = re.compile(r'["\]}]\s*\Z')
_STRING_LITERAL_PATTERN = re.compile(r"""\"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'""", re.DOTALL)
_BARE_WORD_PATTERN = re.compile(r"(?<![\w.])[^\W\d]\w*+(?!\s*:)")
_ENCODED_JSON_PATTERN = re.compile(r'"(?:\s|\\[nrt])*+["\[{\\]')
"""A string that may be JSON itself."""
_LITERAL_WORDS = frozenset({"true", "false", "null", "True", "False", "None"})


def repair_arguments(tool: Tool[..., Any], raw_arguments: Arguments, error: InvalidArguments) -> dict[str, Any]:
    """The mended arguments, checked again; raises the first error where nothing helps."""
    if isinstance(raw_arguments, bytes):
        raw_arguments = decode_utf8(raw_arguments)
    if isinstance(raw_arguments, str) and not raw_arguments.strip():
        return tool.validate_arguments({})
    broken = isinstance(error, MalformedJson)
    if isinstance(raw_arguments, str) and not broken and not _ENCODED_JSON_PATTERN.search(raw_arguments):
        raise error
    values = (
        _repair_text(raw_arguments, tool, error)
        if isinstance(raw_arguments, str) and broken
        else _parse_or_raise(raw_arguments, error)
    )
    unpacked = _unpack_values(values, error)
    if unpacked is None or (
        not broken and isinstance(values, dict) and all(map(is_, unpacked.values(), values.values()))
    ):
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
    """Values that were encoded twice, as a whole or one by one."""
    if isinstance(values, str):
        values = None if _has_too_many_values([values]) else _parse_or_raise(values, error)
    if not isinstance(values, dict) or _has_too_many_values(values.values()):
        return None
    return {name: _parse_if_encoded(value) for name, value in values.items()}


def _has_too_many_values(values: Iterable[Any]) -> bool:
    return sum(value.count(mark) for value in values if isinstance(value, str) for mark in ",[{") > MAX_UNPACKED_VALUES


def _parse_if_encoded(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value)
    except InvalidArguments:
        return value


def _repair_text(text: str, tool: Tool[..., Any], error: InvalidArguments) -> Any:
    escaped = text.count('\\"') + text.count("\\'")
    if len(text) > MAX_REPAIR_CHARACTERS or len(text) * escaped > MAX_REPAIR_WORK or "\\u" in text:
        raise error
    from json_repair import loads

    if not (cut := _completeness(text)):
        raise error
    try:
        values = loads(text)
        validate_json_value(values)
    except (InvalidArguments, RecursionError, ValueError):
        raise error from None
    if not isinstance(values, dict) or not _keeps_every_key(text, values) or not _keeps_every_string(text, values):
        raise error
    if cut == "cut" and _may_be_incomplete(values, tool.schema):
        raise error
    return values


def _completeness(text: str) -> str:
    """Empty where completing would be guessing: cut in the middle of a value, or a string without its quotes."""
    bare = _STRING_LITERAL_PATTERN.sub("", text[max(text.find("{"), 0) :])
    if (
        '"' in bare
        or "'" in bare
        or not _LITERAL_WORDS.issuperset(_BARE_WORD_PATTERN.findall(bare[: bare.rfind("}") + 1] or bare))
    ):
        return ""
    depth = sum(bare.count(c) for c in "{[") - sum(bare.count(c) for c in "}]")
    if depth <= 0:
        return "whole"
    return "cut" if depth == 1 and _CLOSED_END_PATTERN.search(text) else ""


def _may_be_incomplete(values: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether another argument may have followed where the text was cut off."""
    more = set(schema.get("properties", ())) - values.keys()
    return schema.get("additionalProperties", True) is not False or bool(more)


def _keeps_every_key(text: str, values: Any) -> bool:
    """Every colon is a key's or inside a string: nothing was dropped, and no key was given twice."""
    level, expected = [values], 0
    while level:
        expected += sum(len(item) for item in level if isinstance(item, dict))
        texts = [item for item in level if isinstance(item, str)]
        expected += sum(item.count(":") for item in texts)
        level = [inner for item in level for inner in _children(item)]
    return text.count(":") == expected


def _keeps_every_string(text: str, values: dict[str, Any]) -> bool:
    """Every string was written as one: json-repair cuts code fences out of strings, and joins what stands apart."""
    written = {_decode_literal(literal) for literal in _STRING_LITERAL_PATTERN.findall(text[max(text.find("{"), 0) :])}
    level: list[Any] = [values]
    while level:
        if any(isinstance(item, str) and item not in written for item in level):
            return False
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else _children(item))]
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
