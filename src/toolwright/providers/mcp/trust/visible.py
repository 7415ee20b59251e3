"""Visible: text that strangers wrote, with nothing hidden in it."""

from __future__ import annotations

import json
import unicodedata

_IGNORED = ((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
            (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0000, 0xE0FFF))  # fmt: skip
"""Letters and marks that show nothing: Python calls them printable, and texts can be hidden in them."""


def visible(text: str) -> str:
    """The text with everything in it that does not show, or shows as a plain space, written as JSON escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _shows(character) else json.dumps(character)[1:-1] for character in text)


def _shows(character: str) -> bool:
    code = ord(character)
    if character == " ":
        return True
    if not character.isprintable() or unicodedata.category(character) == "Zs":
        return False
    return not any(first <= code <= last for first, last in _IGNORED)
