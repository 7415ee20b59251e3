"""Found: what a search brings back, whichever way it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

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


OutputMode: TypeAlias = Literal["content", "files", "count"]


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """What form of an answer is wanted, and how much of it."""

    mode: OutputMode
    limit: int
    """Matches, or files where only those are named."""
    context_lines: int = 0
    """Lines around each match."""


class ResultLine(NamedTuple):
    """A line to show."""

    line_number: int
    text: str
    matched_text: str | None = None
    """The text that was found in it; None for a line around one."""


@dataclass(slots=True)
class FileMatches:
    """What was found in one file."""

    parts: tuple[str, ...]
    match_count: int = 0
    """Lines with a match; or matches, where they may go over several lines."""
    lines: list[ResultLine] = field(default_factory=list)


@dataclass(slots=True)
class SearchResults:
    """What was found in all files, by path."""

    files: list[FileMatches] = field(default_factory=list)
    searched_files: int = 0
    skipped_sensitive: int = 0
    """Files that look like keys or credentials."""
    truncated: bool = False
    slow_lines: int = 0
    match_count: int = 0
    """Matches in all files."""

    def add(self, file: FileMatches, result_format: ResultFormat) -> None:
        """Take what fits; in `count` mode everything does."""
        if result_format.mode == "content":
            self._add_lines(file, result_format.limit - self.match_count)
        elif result_format.mode == "files" and len(self.files) >= result_format.limit:
            self.truncated = True
        else:
            self._append(file)

    def sort_by_path(self) -> None:
        """Put the files in order."""
        self.files.sort(key=lambda file: file.parts)

    def _append(self, file: FileMatches) -> None:
        self.files.append(file)
        self.match_count += file.match_count

    def _add_lines(self, file: FileMatches, remaining: int) -> None:
        if file.match_count > remaining:
            self.truncated = True
            file.lines, file.match_count = _first_matches(file.lines, remaining), remaining
        if file.match_count:
            self._append(file)


def _first_matches(lines: list[ResultLine], limit: int) -> list[ResultLine]:
    """Up to the last match that there is room for."""
    kept: list[ResultLine] = []
    for line in lines:
        limit -= line.matched_text is not None
        if limit < 0:
            break
        kept.append(line)
    return kept
