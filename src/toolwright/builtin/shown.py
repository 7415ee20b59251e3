"""Shown: text from outside, such as a file's name, made harmless to look at."""

from __future__ import annotations

from toolwright.core.visible import escaped


def shown(text: str, most: int | None = None) -> str:
    """One line of it: breaks, tabs, and all that steers or hides as escapes; at most so many characters of it."""
    if most is not None and len(text) > most:
        text = f"{text[:most]}..."
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def sound(text: str) -> str:
    """Text that can be sent anywhere: what stands for bytes that are no text is a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def size(number: int) -> str:
    """A number of bytes, as people write it."""
    return "1 byte" if number == 1 else f"{number:,} bytes"
