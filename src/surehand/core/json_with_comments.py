"""JSON as editors write it: with comments and trailing commas, and with a line for every value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

JsonPath: TypeAlias = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""
_STRING_PATTERN = r'"(?:\\.|[^"\\\n])*"?'
# What is never closed is taken to its end at once: looking for that end again and again would take for ever.
_STRING_OR_COMMENT = re.compile(rf"{_STRING_PATTERN}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING_OR_TRAILING_COMMA = re.compile(rf"{_STRING_PATTERN}|,(?=\s*[}}\]])")
_TOKEN = re.compile(rf"{_STRING_PATTERN}|[{{}}\[\],\n]|[^\s\"{{}}\[\],:]+")


def strip_comments(text: str) -> str:
    """The same as plain JSON: what had to go is blank, so that everything else stays where it was."""
    return _STRING_OR_TRAILING_COMMA.sub(_blank_out, _STRING_OR_COMMENT.sub(_blank_out, text))


def _blank_out(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def line_numbers(text: str) -> Iterator[tuple[JsonPath, int]]:
    """Where each key, and each item of a list, stands in plain JSON that can be read; a key that is twice is twice."""
    way: list[str | int | None] = []  # None: a key is awaited
    line = 1
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token in "}]":
            way.pop()
        elif token == ",":
            way[-1] = way[-1] + 1 if isinstance(way[-1], int) else None
        else:
            if way and (way[-1] is None or isinstance(way[-1], int)):
                way[-1] = json.loads(token) if way[-1] is None else way[-1]
                yield tuple(step for step in way if step is not None), line
            if token in "{[":
                way.append(None if token == "{" else 0)
