"""The screen: how values are written for people and for pipes."""

from __future__ import annotations

import json
import sys
from typing import IO, Any

from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

from surehand.core.sanitize import escape_unprintable


def console(stream: IO[str] | None = None) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no guessing at colours."""
    return Console(file=stream or sys.stdout, markup=False, emoji=False, highlight=False)


def line(value: Any) -> str:
    """One line of JSON for a pipe; what JSON cannot hold is written as Python shows it."""
    return to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode(errors="replace") + "\n"


def pretty(value: Any) -> Text:
    """JSON for a person, with colour where there is any."""
    return highlighted(escape_unprintable(_dumped(value, indent=2)))


def highlighted(text: str) -> Text:
    """Text that is JSON, or begins as JSON, with colour where there is any."""
    shown = Text(text)
    JSONHighlighter().highlight(shown)
    return shown


def compact(value: Any) -> str:
    """JSON for a person on one line."""
    return _dumped(value)


def _dumped(value: Any, indent: int | None = None) -> str:
    plain = to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")
    return json.dumps(plain, indent=indent, ensure_ascii=False)


def one_line(text: str) -> str:
    """The same on a single line."""
    return escape_unprintable(" ".join(text.split()))


def excerpt(text: str, most: int, rest: str) -> str:
    """The text, escaped. Of one that is too long, its beginning, and how many bytes there are more."""
    if len(text) <= most:
        return escape_unprintable(text)
    more = len(text[most:].encode(errors="surrogatepass"))
    return f"{escape_unprintable(text[:most])} ... and {more:,} bytes more: {rest}"


def duration(seconds: float) -> str:
    """Roughly how long, in the largest unit that says something."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def size(number: int) -> str:
    """Bytes as people count them."""
    for unit, length in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if number >= length:
            return f"{number / length:.1f} {unit}"
    return f"{number} bytes"


def is_person(stream: IO[str]) -> bool:
    """Whether somebody is looking at the stream."""
    return stream.isatty()
