"""Excerpt: a line of a file as a search shows it: short, cut around the match, and harmless to look at."""

from __future__ import annotations

from surehand.builtin.found import ResultLine
from surehand.core.sanitize import escape_line

MAX_EXCERPT_LENGTH = 200
"""Characters of a line."""
_MAX_LEAD_LENGTH = 60
"""Characters that are kept before a match in a long line."""
EXCERPT_REACH_BYTES = 4 * MAX_EXCERPT_LENGTH
"""Bytes on either side of a match that can become visible."""


def match_line(
    line_number: int,
    window: bytes,
    match_start: int,
    match: bytes,
    *,
    has_line_start: bool = True,
    has_line_end: bool = True,
) -> ResultLine:
    """A line with a match, from as much of it as was read.

    Args:
        at: where the match begins in the window.
        from_start: whether the window begins with the line.
        to_end: whether it ends with it.
    """
    low, high = max(match_start - EXCERPT_REACH_BYTES, 0), match_start + EXCERPT_REACH_BYTES
    before, after = _decode_printable(window[low:match_start]), _decode_printable(window[match_start:high])
    lead = (
        len(before)
        if len(before) + len(after) <= MAX_EXCERPT_LENGTH
        else min(len(before), max(_MAX_LEAD_LENGTH, MAX_EXCERPT_LENGTH - len(after)))
    )
    more_before = lead < len(before) or low > 0 or not has_line_start
    more_after = len(after) > MAX_EXCERPT_LENGTH - lead or high < len(window) or not has_line_end
    text = before[len(before) - lead :] + after[: MAX_EXCERPT_LENGTH - lead]
    return ResultLine(
        line_number,
        f"{'...' if more_before else ''}{text}{'...' if more_after else ''}",
        _decode_printable(match)[:MAX_EXCERPT_LENGTH],
    )


def context_line(line_number: int, window: bytes, *, has_line_end: bool = True) -> ResultLine:
    """A line near one with a match, from its beginning."""
    text = _decode_printable(window[:EXCERPT_REACH_BYTES])
    more = len(text) > MAX_EXCERPT_LENGTH or len(window) > EXCERPT_REACH_BYTES or not has_line_end
    return ResultLine(line_number, f"{text[:MAX_EXCERPT_LENGTH]}{'...' if more else ''}")


def _decode_printable(data: bytes) -> str:
    # A window may begin or end within a character.
    while data and data[0] & 0xC0 == 0x80:
        data = data[1:]
    return "\t".join(escape_line(piece) for piece in data.removesuffix(b"\r").decode("utf-8", "replace").split("\t"))
