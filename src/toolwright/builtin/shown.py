"""Shown: text from outside, such as a file's name, made harmless to look at."""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_INVISIBLE = "\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"  # they turn text about, or hide it
_NO_TEXT = "\ud800-\udfff\U000e0000-\U000e0fff"
_UNSHOWABLE = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_NO_TEXT}]")


def shown(text: str, most: int | None = None) -> str:
    """Control characters, and bytes that are no text, as escapes; at most so many characters of it."""
    if most is not None and len(text) > most:
        text = f"{text[:most]}..."
    return text if text.isascii() and text.isprintable() else _UNSHOWABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "backslashreplace").decode()


def sound(text: str) -> str:
    """Text that can be sent anywhere: what stands for bytes that are no text is a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def size(number: int) -> str:
    """A number of bytes, as people write it."""
    return "1 byte" if number == 1 else f"{number:,} bytes"
