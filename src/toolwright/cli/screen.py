"""The screen: how values are written for people and for pipes."""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import IO, Any

from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

_ZERO_WIDTH_JOINER = "\u200d"
"""Families of emoji are made with it; every other invisible character is shown for what it is."""


def console(stream: IO[str] | None = None) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no guessing at colours."""
    return Console(file=stream or sys.stdout, markup=False, emoji=False, highlight=False)


def line(value: Any) -> str:
    """One line of JSON for a pipe; what JSON cannot hold is written as Python shows it."""
    return to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode(errors="replace") + "\n"


def pretty(value: Any) -> Text:
    """JSON for a person, with colour where there is any."""
    plain = to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")
    text = Text(escaped(json.dumps(plain, indent=2, ensure_ascii=False)))
    JSONHighlighter().highlight(text)
    return text


def escaped(text: str) -> str:
    """The text with every control and invisible character made visible, so that nothing can act on the terminal."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in "\n\t" or character == _ZERO_WIDTH_JOINER or character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """The same on a single line."""
    return escaped(" ".join(text.split()))


def is_person(stream: IO[str]) -> bool:
    """Whether somebody is looking at the stream."""
    return stream.isatty()
