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


def create_console(stream: IO[str] | None = None) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no guessing at colours."""
    return Console(file=stream or sys.stdout, markup=False, emoji=False, highlight=False)


def json_line(value: Any) -> str:
    """One line of JSON for a pipe; what JSON cannot hold is written as Python shows it."""
    return to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode(errors="replace") + "\n"


def pretty_json(value: Any) -> Text:
    """JSON for a person, with colour where there is any."""
    return highlight_json(escape_unprintable(_dump_json(value, indent=2)))


def highlight_json(text: str) -> Text:
    """Text that is JSON, or begins as JSON, with colour where there is any."""
    shown = Text(text)
    JSONHighlighter().highlight(shown)
    return shown


def compact_json(value: Any) -> str:
    """JSON for a person on one line."""
    return _dump_json(value)


def _dump_json(value: Any, indent: int | None = None) -> str:
    plain = to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")
    return json.dumps(plain, indent=indent, ensure_ascii=False)


def to_one_line(text: str) -> str:
    """The same on a single line."""
    return escape_unprintable(" ".join(text.split()))


def truncate_text(text: str, max_length: int, how_to_see_rest: str) -> str:
    """The text, escaped. Of one that is too long, its beginning, and how many bytes there are more."""
    if len(text) <= max_length:
        return escape_unprintable(text)
    more = len(text[max_length:].encode(errors="surrogatepass"))
    return f"{escape_unprintable(text[:max_length])} ... and {more:,} bytes more: {how_to_see_rest}"


def format_duration(seconds: float) -> str:
    """Roughly how long, in the largest unit that says something."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_size(byte_count: int) -> str:
    """Bytes as people count them."""
    for unit, length in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if byte_count >= length:
            return f"{byte_count / length:.1f} {unit}"
    return f"{byte_count} bytes"


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody is looking at the stream."""
    return stream.isatty()
