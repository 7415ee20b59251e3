"""Visible: text from anywhere, as a person may trust it to be what it looks like."""

from __future__ import annotations

import re
import unicodedata

_BLANK = (  # printable, as Unicode has it, and yet nobody sees them
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff"
)
_ODD = re.compile("[^\n\t\x20-\x7e]+")
_UNSEEN = re.compile(f"[{_BLANK}]")
_JOINER, _VARIANTS = "\u200d", "\ufe0e\ufe0f"
_NEWER = "\U0001f000", "\U0001faff"
"""Between these are pictures only, also those that this Python does not know yet."""
_PICTURES, _DIGITS = ("So", "Sk", "Sm", "Po"), tuple("0123456789#*")


def escaped(text: str) -> str:
    """The text with all that steers, turns about or hides written out, as `\\u202e`; breaks and tabs are kept."""
    return text if _is_seen(text) else _ODD.sub(_written, text)


def _is_seen(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _UNSEEN.search(text))


def _written(found: re.Match[str]) -> str:
    if _is_seen(found[0]):
        return found[0]
    return "".join(_one(found.string, place) for place in range(*found.span()))


def _one(text: str, place: int) -> str:
    character = text[place]
    if _is_seen(character) or unicodedata.category(character) == "Zs" or _NEWER[0] <= character <= _NEWER[1]:
        return character
    if _is_of_emoji(text, place):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_of_emoji(text: str, place: int) -> bool:
    """Whether it is the one joiner between two pictures, or the one mark behind a picture that says how it looks."""
    character, before, after = text[place], text[place - 1 : place], text[place + 1 : place + 2]
    if character == _JOINER:
        return _is_picture(after) and (_is_picture(before) or before == _VARIANTS[-1])
    return character in _VARIANTS and (_is_picture(before) or before in _DIGITS)


def _is_picture(character: str) -> bool:
    return character != "" and unicodedata.category(character) in _PICTURES and not character.isascii()
