"""Repair: arguments that plain parsing refuses, mended where exactly one meaning is possible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from operator import is_
from typing import Any

from surehand.core.call import Arguments
from surehand.core.errors import InvalidArguments
from surehand.core.jsontext import Malformed, as_text, check_plain, parse
from surehand.core.tool import Tool

MAX_CHARACTERS, MAX_WORK = 50_000, 1_000_000
"""json-repair is quadratic in escaped quotes; ten kilobytes of them take a second."""
MAX_VALUES = 50_000
"""About as many values are read in texts that may be JSON themselves: they came as texts, and nobody has counted."""
_CLOSED = re.compile(r'["\]}]\s*\Z')
_STRING = re.compile(r"""\"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'""", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*+(?!\s*:)")
_PACKED = re.compile(r'"(?:\s|\\[nrt])*+["\[{\\]')
"""A string that may be JSON itself."""
_LITERALS = frozenset({"true", "false", "null", "True", "False", "None"})


def repair(tool: Tool[..., Any], raw: Arguments, error: InvalidArguments) -> dict[str, Any]:
    """The mended arguments, checked again; raises the first error where nothing helps."""
    if isinstance(raw, bytes):
        raw = as_text(raw)
    if isinstance(raw, str) and not raw.strip():
        return tool.check({})
    broken = isinstance(error, Malformed)
    if isinstance(raw, str) and not broken and not _PACKED.search(raw):
        raise error
    values = _mended(raw, tool, error) if isinstance(raw, str) and broken else _parsed(raw, error)
    unpacked = _unpacked(values, error)
    if unpacked is None or (
        not broken and isinstance(values, dict) and all(map(is_, unpacked.values(), values.values()))
    ):
        raise error
    try:
        return tool.check(unpacked)
    except InvalidArguments:
        raise error from None


def _parsed(raw: Arguments, error: InvalidArguments) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return parse(raw)
    except InvalidArguments:
        raise error from None


def _unpacked(values: Any, error: InvalidArguments) -> dict[str, Any] | None:
    """Values that were encoded twice, as a whole or one by one."""
    if isinstance(values, str):
        values = None if _is_bulky([values]) else _parsed(values, error)
    if not isinstance(values, dict) or _is_bulky(values.values()):
        return None
    return {name: _once_more(value) for name, value in values.items()}


def _is_bulky(values: Iterable[Any]) -> bool:
    return sum(value.count(mark) for value in values if isinstance(value, str) for mark in ",[{") > MAX_VALUES


def _once_more(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse(value)
    except InvalidArguments:
        return value


def _mended(text: str, tool: Tool[..., Any], error: InvalidArguments) -> Any:
    escaped = text.count('\\"') + text.count("\\'")
    if len(text) > MAX_CHARACTERS or len(text) * escaped > MAX_WORK or "\\u" in text:
        raise error
    from json_repair import loads

    if not (cut := _missing_closers(text)):
        raise error
    try:
        values = loads(text)
        check_plain(values)
    except (InvalidArguments, RecursionError, ValueError):
        raise error from None
    if not isinstance(values, dict) or not _all_kept(text, values) or not _verbatim(text, values):
        raise error
    if cut == "cut" and _may_go_on(values, tool.schema):
        raise error
    return values


def _missing_closers(text: str) -> str:
    """Empty where completing would be guessing: cut in the middle of a value, or a string without its quotes."""
    bare = _STRING.sub("", text[max(text.find("{"), 0) :])
    if '"' in bare or "'" in bare or not _LITERALS.issuperset(_WORD.findall(bare[: bare.rfind("}") + 1] or bare)):
        return ""
    depth = sum(bare.count(c) for c in "{[") - sum(bare.count(c) for c in "}]")
    if depth <= 0:
        return "whole"
    return "cut" if depth == 1 and _CLOSED.search(text) else ""


def _may_go_on(values: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether another argument may have followed where the text was cut off."""
    more = set(schema.get("properties", ())) - values.keys()
    return schema.get("additionalProperties", True) is not False or bool(more)


def _all_kept(text: str, values: Any) -> bool:
    """Every colon is a key's or inside a string: nothing was dropped, and no key was given twice."""
    level, expected = [values], 0
    while level:
        expected += sum(len(item) for item in level if isinstance(item, dict))
        texts = [item for item in level if isinstance(item, str)]
        expected += sum(item.count(":") for item in texts)
        level = [inner for item in level for inner in _inside(item)]
    return text.count(":") == expected


def _verbatim(text: str, values: dict[str, Any]) -> bool:
    """Every string was written as one: json-repair cuts code fences out of strings, and joins what stands apart."""
    written = {_decoded(literal) for literal in _STRING.findall(text[max(text.find("{"), 0) :])}
    level: list[Any] = [values]
    while level:
        if any(isinstance(item, str) and item not in written for item in level):
            return False
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else _inside(item))]
    return True


def _decoded(literal: str) -> str:
    body = literal[1:-1]
    if literal[0] == "'":
        body = body.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError:
        return body


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []
