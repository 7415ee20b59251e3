"""Regex: a pattern as ripgrep reads it, put so that another engine takes it in the same sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from surehand.core.errors import InvalidArguments

_TOKEN_REGEX = re.compile(r"\\(?:[pPxuU]\{[^}]*\}|b\{[a-z-]+\}|.)|\[:\^?[a-z]+:\]|.", re.DOTALL)
_REPETITION = re.compile(r"\{(?:\d+(?:,\d*)?|,\d+)\}")
_WORD_CLASS = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}"
    r"\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
)
_SPACE_CLASS = r"\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
_NON_SPACE_CLASS = (
    r"\x00-\x08\x0E-\x1F!-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}"
    r"\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF}"
)
_UNICODE_CLASSES = {"w": _WORD_CLASS, "d": r"\p{Nd}", "s": _SPACE_CLASS}
_NEGATED_CLASSES = {"W": r"\W", "D": r"\P{Nd}", "S": _NON_SPACE_CLASS}
"""The same in brackets, where nothing can be negated as a whole; of `W` letters beyond ASCII are a part then."""
_UNSUPPORTED_ESCAPES = re.compile(r"\\(?:[<>CQEGKXRHhVNZ0-9]|b\{.*)", re.DOTALL)
"""Escapes that one engine takes, and another refuses or takes for something else."""


class RegexToken(NamedTuple):
    """A piece of a pattern: a letter, an escape, or a named class; and whether it stands in brackets."""

    text: str
    in_class: bool


def tokenize_regex(pattern: str) -> Iterator[RegexToken]:
    """The pieces in their order."""
    at, in_class, first = 0, False, 0
    while (found := _TOKEN_REGEX.match(pattern, at)) is not None:
        text, at = found[0], found.end()
        if not in_class and text.startswith("[:"):
            text, at = "[", found.start() + 1
        yield RegexToken(text, in_class)
        if not in_class and text == "[":
            in_class, first = True, at + (pattern[at : at + 1] == "^")
        elif in_class and text == "]" and found.start() != first:
            in_class = False


def can_match_newline(pattern: str) -> bool:
    """Whether a match may hold a line's end."""
    return any(token.text in ("\n", "\r", r"\n", r"\r") and not token.in_class for token in tokenize_regex(pattern))


def to_ripgrep_regex(pattern: str, *, crosses_lines: bool = False) -> str:
    """Braces that count nothing mean themselves; and across lines, either kind of line end is one."""
    done, at = "", 0
    for token in tokenize_regex(pattern):
        text, in_class = token
        if text == "{" and not in_class:
            counts = at > 0 and _REPETITION.match(pattern, at) is not None
            text = r"\{" if not counts else "{0" if pattern.startswith("{,", at) else text
        elif crosses_lines and not in_class:
            text = {"\n": r"\r?\n", r"\n": r"\r?\n", "$": r"(?:\r?$)"}.get(text, text)
        done, at = done + text, at + len(token.text)
    return done


def to_re2_regex(pattern: str, *, unicode: bool = True) -> str:
    r"""With what `\w`, `\d` and `\s` mean to ripgrep written out; raises for what cannot be said."""
    done, at = "", 0
    for token in tokenize_regex(pattern):
        text, in_class = token
        _refuse_unsupported(text, in_class, pattern, at)
        if text == "{" and not in_class and pattern.startswith("{,", at) and _REPETITION.match(pattern, at):
            text = "{0"
        elif unicode and text[:1] == "\\" and text[1:].lower() in _UNICODE_CLASSES:
            text = _expand_class(text[1], in_class)
        done, at = done + text, at + len(token.text)
    return done


def _expand_class(letter: str, in_class: bool) -> str:
    inside = _UNICODE_CLASSES[letter.lower()]
    if letter.islower():
        return inside if in_class else f"[{inside}]"
    return _NEGATED_CLASSES[letter] if in_class else f"[^{inside}]"


def _refuse_unsupported(text: str, in_class: bool, pattern: str, position: int) -> None:
    if _UNSUPPORTED_ESCAPES.match(text) and not (in_class and text in (r"\<", r"\>")):
        raise InvalidArguments(f"'{text}' is not understood in a regex here. Use \\b for the edge of a word.")
    if in_class and (text == "[" or pattern.startswith(("&&", "--", "~~"), position)):
        raise InvalidArguments(f"'{text}' in brackets needs a backslash before it, to mean the letter itself.")
