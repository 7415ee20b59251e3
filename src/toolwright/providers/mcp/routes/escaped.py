"""Escaped: what a server prints, made safe to be shown."""

from __future__ import annotations

import re

from toolwright.providers.mcp.prose import UNSEEN

MAX_LENGTH = 500


def escaped(text: bytes | str, most: int = MAX_LENGTH) -> str:
    """One line of text: cut, and what would move a cursor or hide something written out."""
    cut = text[: most * 4 if isinstance(text, bytes) else most]
    plain = cut.decode(errors="backslashreplace") if isinstance(cut, bytes) else cut
    shown = UNSEEN.sub(_written_out, plain.rstrip("\r\n")[:most])
    return f"{shown}…" if len(text) > len(cut) or len(plain) > most + 2 else shown


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
