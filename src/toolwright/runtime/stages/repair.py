"""Repair: arguments that plain parsing refuses, mended where exactly one meaning is possible."""

from __future__ import annotations

import re
from typing import Any

from toolwright.core.call import Arguments
from toolwright.core.errors import InvalidArguments
from toolwright.core.jsontext import Malformed, check_plain, parse
from toolwright.core.tool import Tool

MAX_CHARACTERS, MAX_WORK = 50_000, 1_000_000
"""json-repair is quadratic in escaped quotes; ten kilobytes of them take a second."""
_CLOSED = re.compile(r'["\]}]\s*\Z')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def repair(tool: Tool[..., Any], raw: Arguments, error: InvalidArguments) -> dict[str, Any]:
    """The mended arguments, checked again; raises the first error where nothing helps."""
    if isinstance(raw, bytes):
        raw = raw.decode(errors="replace")
    values = _mended(raw, tool, error) if isinstance(raw, str) and isinstance(error, Malformed) else _parsed(raw, error)
    unpacked = _unpacked(values, error)
    if unpacked is None:
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
        values = _parsed(values, error)
    if not isinstance(values, dict):
        return None
    return {name: _once_more(value) for name, value in values.items()}


def _once_more(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse(value)
    except InvalidArguments:
        return value


def _mended(text: str, tool: Tool[..., Any], error: InvalidArguments) -> Any:
    if len(text) > MAX_CHARACTERS or len(text) * text.count('\\"') > MAX_WORK or "\\u" in text:
        raise error
    from json_repair import loads

    if not (cut := _missing_closers(text)):
        raise error
    try:
        values = loads(text)
        check_plain(values)
    except (InvalidArguments, RecursionError, ValueError):
        raise error from None
    if not isinstance(values, dict) or not _all_kept(text, values):
        raise error
    if cut == "cut" and set(tool.schema.get("properties", {})) - values.keys():
        raise error  # cut off: an optional argument may have followed
    return values


def _missing_closers(text: str) -> str:
    """Empty if the text was cut in the middle of a value: completing it would be guessing."""
    bare = _STRING.sub('""', text)
    depth = sum(bare.count(c) for c in "{[") - sum(bare.count(c) for c in "}]")
    if depth <= 0:
        return "whole"
    return "cut" if depth == 1 and bare.count('"') % 2 == 0 and _CLOSED.search(text) else ""


def _all_kept(text: str, values: Any) -> bool:
    """Every colon is a key's or inside a string: nothing was dropped, and no key was given twice."""
    level, expected = [values], 0
    while level:
        expected += sum(len(item) for item in level if isinstance(item, dict))
        texts = [item for item in level if isinstance(item, str)]
        expected += sum(item.count(":") for item in texts)
        level = [inner for item in level for inner in _inside(item)]
    return text.count(":") == expected


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []
