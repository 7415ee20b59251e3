"""Excerpt: a line of a file as a search shows it: short, cut around the match, and harmless to look at."""

from __future__ import annotations

from surehand.builtin.found import Line
from surehand.core.sanitize import escape_line

WIDTH = 200
"""Characters of a line."""
_LEAD = 60
"""Characters that are kept before a match in a long line."""
REACH = 4 * WIDTH
"""Bytes on either side of a match that can become visible."""


def line(number: int, window: bytes, at: int, match: bytes, *, from_start: bool = True, to_end: bool = True) -> Line:
    """A line with a match, from as much of it as was read.

    Args:
        at: where the match begins in the window.
        from_start: whether the window begins with the line.
        to_end: whether it ends with it.
    """
    low, high = max(at - REACH, 0), at + REACH
    before, after = _text(window[low:at]), _text(window[at:high])
    lead = len(before) if len(before) + len(after) <= WIDTH else min(len(before), max(_LEAD, WIDTH - len(after)))
    more_before = lead < len(before) or low > 0 or not from_start
    more_after = len(after) > WIDTH - lead or high < len(window) or not to_end
    text = before[len(before) - lead :] + after[: WIDTH - lead]
    return Line(number, f"{'...' if more_before else ''}{text}{'...' if more_after else ''}", _text(match)[:WIDTH])


def around(number: int, window: bytes, *, to_end: bool = True) -> Line:
    """A line near one with a match, from its beginning."""
    text = _text(window[:REACH])
    more = len(text) > WIDTH or len(window) > REACH or not to_end
    return Line(number, f"{text[:WIDTH]}{'...' if more else ''}")


def _text(data: bytes) -> str:
    # A window may begin or end within a character.
    while data and data[0] & 0xC0 == 0x80:
        data = data[1:]
    return "\t".join(escape_line(piece) for piece in data.removesuffix(b"\r").decode("utf-8", "replace").split("\t"))
