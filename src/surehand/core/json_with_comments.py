"""JSON with comments and trailing commas, as editors write it, and the line numbers of its values.

Configuration files are read with it: this package's own, and those of other programs that list MCP servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

JsonPath: TypeAlias = tuple[str | int, ...]
"""The keys and list indexes that lead to a value."""
# A string or comment that is never closed matches too. If it did not, the search for its end would start again at every
# following quote, in quadratic time.
_STRING_PATTERN = r'"(?:\\.|[^"\\\n])*"?'
_STRING_OR_COMMENT = re.compile(rf"{_STRING_PATTERN}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING_OR_TRAILING_COMMA = re.compile(rf"{_STRING_PATTERN}|,(?=\s*[}}\]])")
_TOKEN = re.compile(rf"{_STRING_PATTERN}|[{{}}\[\],\n]|[^\s\"{{}}\[\],:]+")


def strip_comments(text: str) -> str:
    """Plain JSON: comments and trailing commas become spaces, so that every other character keeps its position."""
    without_comments = _STRING_OR_COMMENT.sub(_blank_out, text)
    return _STRING_OR_TRAILING_COMMA.sub(_blank_out, without_comments)


def _blank_out(match: re.Match[str]) -> str:
    is_string = match[0].startswith('"')
    return match[0] if is_string else re.sub(r"[^\n]", " ", match[0])


def line_numbers(text: str) -> Iterator[tuple[JsonPath, int]]:
    """The line of each key and each list item in valid, plain JSON; a repeated key is given each time."""
    path: list[str | int | None] = []  # None: an object whose next key has not been read yet
    line = 1
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token in "}]":
            path.pop()
        elif token == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        else:
            if path and (path[-1] is None or isinstance(path[-1], int)):
                if path[-1] is None:
                    path[-1] = json.loads(token)
                yield tuple(step for step in path if step is not None), line
            if token in "{[":
                path.append(None if token == "{" else 0)
