"""Escaped: what a server prints, made safe to be shown."""

from __future__ import annotations

from toolwright.core import visible

MAX_LENGTH = 500


def escaped(text: bytes | str, most: int = MAX_LENGTH) -> str:
    """One line of text: cut, and what would move a cursor or hide something written out."""
    cut = text[: most * 4 if isinstance(text, bytes) else most]
    plain = cut.decode(errors="backslashreplace") if isinstance(cut, bytes) else cut
    shown = visible.escaped(plain.rstrip("\r\n")[:most]).replace("\n", "\\n")
    return f"{shown}…" if len(text) > len(cut) or len(plain) > most + 2 else shown
