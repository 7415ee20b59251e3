"""Escaped: what a server prints, made safe to be shown."""

from __future__ import annotations

import re

MAX_LENGTH = 500
_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def escaped(text: bytes | str, most: int = MAX_LENGTH) -> str:
    """One line of text: cut, and what would move a cursor or hide something written out."""
    cut = text[: most * 4 if isinstance(text, bytes) else most]
    plain = cut.decode(errors="backslashreplace") if isinstance(cut, bytes) else cut
    shown = _CONTROL.sub(_written_out, plain.rstrip("\r\n")[:most])
    return f"{shown}…" if len(text) > len(cut) or len(plain) > most + 2 else shown


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
