"""The results of a content search, in the same form from ripgrep and from the search in this process.

Also cuts the excerpts: each line is shown short, around its match, with control characters escaped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from surehand.core.sanitize import escape_line

OutputMode: TypeAlias = Literal["content", "files", "count"]
MAX_EXCERPT_LENGTH = 200
"""Characters of a line in the results."""
_MAX_LEAD_LENGTH = 60
"""Characters before the match in the excerpt of a long line."""
EXCERPT_REACH_BYTES = 4 * MAX_EXCERPT_LENGTH
"""Bytes on either side of a match's start that an excerpt can need: a character has at most four."""


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """Which results a search returns, and how many."""

    mode: OutputMode
    limit: int
    """Maximum number of matches, or of files if only their names are returned."""
    context_lines: int = 0
    """Lines to show before and after each match."""


class ResultLine(NamedTuple):
    """A line of a file in the results."""

    line_number: int
    text: str
    matched_text: str | None = None
    """The match in the line; None for a context line."""


@dataclass(slots=True)
class FileMatches:
    """The matches in one file."""

    parts: tuple[str, ...]
    match_count: int = 0
    """Number of matching lines, or of matches if they can cross lines."""
    lines: list[ResultLine] = field(default_factory=list)


@dataclass(slots=True)
class SearchResults:
    """The matches in all files."""

    files: list[FileMatches] = field(default_factory=list)
    searched_files: int = 0
    skipped_sensitive: int = 0
    """Files that look like keys or credentials and were not searched."""
    truncated: bool = False
    slow_lines: int = 0
    match_count: int = 0

    def add(self, file: FileMatches, result_format: ResultFormat) -> None:
        """Add a file's matches up to the limit; `count` mode has none."""
        if result_format.mode == "content":
            self._add_lines(file, result_format.limit - self.match_count)
        elif result_format.mode == "files" and len(self.files) >= result_format.limit:
            self.truncated = True
        else:
            self._append(file)

    def sort_by_path(self) -> None:
        """Sort the files by path."""
        self.files.sort(key=lambda file: file.parts)

    def _append(self, file: FileMatches) -> None:
        self.files.append(file)
        self.match_count += file.match_count

    def _add_lines(self, file: FileMatches, remaining: int) -> None:
        if file.match_count > remaining:
            self.truncated = True
            file.lines = _first_matches(file.lines, remaining)
            file.match_count = remaining
        if file.match_count:
            self._append(file)


def _first_matches(lines: list[ResultLine], limit: int) -> list[ResultLine]:
    """The lines up to the last match within the limit, context lines after it included."""
    kept: list[ResultLine] = []
    matches = 0
    for line in lines:
        matches += line.matched_text is not None
        if matches > limit:
            break
        kept.append(line)
    return kept


def match_line(
    line_number: int,
    window: bytes,
    match_start: int,
    match: bytes,
    *,
    has_line_start: bool = True,
    has_line_end: bool = True,
) -> ResultLine:
    """The excerpt of a matching line.

    Args:
        window: the part of the line that was read.
        match_start: position of the match in the window.
        has_line_start: whether the window contains the line's start.
        has_line_end: whether the window contains the line's end.
    """
    low = max(match_start - EXCERPT_REACH_BYTES, 0)
    high = match_start + EXCERPT_REACH_BYTES
    before = _decode_printable(window[low:match_start])
    after = _decode_printable(window[match_start:high])
    lead = len(before)
    if len(before) + len(after) > MAX_EXCERPT_LENGTH:
        lead = min(lead, max(_MAX_LEAD_LENGTH, MAX_EXCERPT_LENGTH - len(after)))
    is_cut_before = lead < len(before) or low > 0 or not has_line_start
    is_cut_after = len(after) > MAX_EXCERPT_LENGTH - lead or high < len(window) or not has_line_end
    text = before[len(before) - lead :] + after[: MAX_EXCERPT_LENGTH - lead]
    excerpt = f"{'...' if is_cut_before else ''}{text}{'...' if is_cut_after else ''}"
    return ResultLine(line_number, excerpt, _decode_printable(match)[:MAX_EXCERPT_LENGTH])


def context_line(line_number: int, window: bytes, *, has_line_end: bool = True) -> ResultLine:
    """The excerpt of a context line, from its start."""
    text = _decode_printable(window[:EXCERPT_REACH_BYTES])
    is_cut = len(text) > MAX_EXCERPT_LENGTH or len(window) > EXCERPT_REACH_BYTES or not has_line_end
    return ResultLine(line_number, f"{text[:MAX_EXCERPT_LENGTH]}{'...' if is_cut else ''}")


def _decode_printable(data: bytes) -> str:
    # A window may begin within a character: skip UTF-8 continuation bytes.
    while data and data[0] & 0xC0 == 0x80:
        data = data[1:]
    text = data.removesuffix(b"\r").decode("utf-8", "replace")
    return "\t".join(escape_line(piece) for piece in text.split("\t"))
