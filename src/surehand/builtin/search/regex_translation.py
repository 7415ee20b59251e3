"""Translates a regular expression in ripgrep's dialect for ripgrep and for RE2, so that both find the same matches."""

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
"""Negated classes inside brackets, where RE2 cannot negate a set; `W` covers non-ASCII letters there."""
_UNSUPPORTED_ESCAPES = re.compile(r"\\(?:[<>CQEGKXRHhVNZ0-9]|b\{.*)", re.DOTALL)
"""Escapes that the two engines do not support in the same meaning."""


class InvalidRegex(InvalidArguments):
    """A pattern is no regular expression that both engines understand."""


class RegexToken(NamedTuple):
    """A character, an escape or a named class, and whether it is inside brackets."""

    text: str
    in_class: bool


def tokenize_regex(pattern: str) -> Iterator[RegexToken]:
    """The tokens of a pattern in order."""
    position = 0
    in_class = False
    class_start = 0
    while (token := _TOKEN_REGEX.match(pattern, position)) is not None:
        text = token[0]
        position = token.end()
        if not in_class and text.startswith("[:"):  # a named class counts only inside brackets
            text = "["
            position = token.start() + 1
        yield RegexToken(text, in_class)
        if not in_class and text == "[":
            in_class = True
            class_start = position + (pattern[position : position + 1] == "^")
        elif in_class and text == "]" and token.start() != class_start:  # a bracket at the start is a member
            in_class = False


def can_match_newline(pattern: str) -> bool:
    """Whether a match may contain a newline."""
    return any(token.text in ("\n", "\r", r"\n", r"\r") and not token.in_class for token in tokenize_regex(pattern))


def to_ripgrep_regex(pattern: str, *, crosses_lines: bool = False) -> str:
    """Escape braces that are no repetition; with `crosses_lines`, let `\\n` and `$` match `\\r\\n` too."""
    translated = ""
    position = 0
    for token in tokenize_regex(pattern):
        text, in_class = token
        if text == "{" and not in_class:
            is_repetition = position > 0 and _REPETITION.match(pattern, position) is not None
            if not is_repetition:
                text = r"\{"
            elif pattern.startswith("{,", position):
                text = "{0"
        elif crosses_lines and not in_class:
            text = {"\n": r"\r?\n", r"\n": r"\r?\n", "$": r"(?:\r?$)"}.get(text, text)
        translated += text
        position += len(token.text)
    return translated


def to_re2_regex(pattern: str, *, unicode: bool = True) -> str:
    r"""Write out what `\w`, `\d` and `\s` mean to ripgrep; raises `InvalidRegex` for unsupported syntax."""
    translated = ""
    position = 0
    for token in tokenize_regex(pattern):
        text, in_class = token
        _refuse_unsupported(text, in_class, pattern, position)
        is_brace = text == "{" and not in_class
        if is_brace and pattern.startswith("{,", position) and _REPETITION.match(pattern, position):
            text = "{0"
        elif unicode and text[:1] == "\\" and text[1:].lower() in _UNICODE_CLASSES:
            text = _expand_class(text[1], in_class)
        translated += text
        position += len(token.text)
    return translated


def _expand_class(letter: str, in_class: bool) -> str:
    members = _UNICODE_CLASSES[letter.lower()]
    if letter.islower():
        return members if in_class else f"[{members}]"
    return _NEGATED_CLASSES[letter] if in_class else f"[^{members}]"


def _refuse_unsupported(text: str, in_class: bool, pattern: str, position: int) -> None:
    if _UNSUPPORTED_ESCAPES.match(text) and not (in_class and text in (r"\<", r"\>")):
        raise InvalidRegex(f"'{text}' is not understood in a regex here. Use \\b for the edge of a word.")
    if in_class and (text == "[" or pattern.startswith(("&&", "--", "~~"), position)):
        raise InvalidRegex(f"'{text}' in brackets needs a backslash before it, to mean the letter itself.")
