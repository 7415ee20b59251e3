"""Line diffs: which lines of a text change, and their rendering as a unified diff. Used by `edit` and `write`.

Edits are compared only around the replaced ranges, so that a small edit of a large file costs little.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TypeAlias

from surehand.builtin.files.text_document import TextReplacement
from surehand.core.sanitize import replace_surrogates

_CONTEXT_LINES = 3
_MAX_COMPARED_LINES = 2000
"""More changed lines than this on one side are shown as one change, because comparing takes quadratic time."""
_MAX_LINE_LENGTH = 500
"""Characters of a line in the diff."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines that are replaced by others."""

    line_number: int
    """Number of the first removed line, counted from 1."""
    removed_lines: tuple[str, ...]
    added_lines: tuple[str, ...]


def split_lines(text: str) -> list[str]:
    """The lines with their newlines; only `\\n` ends a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@dataclass(frozen=True, slots=True)
class TextSection:
    """Consecutive lines of a text, and the number of lines before them."""

    lines: Sequence[str]
    lines_before: int = 0

    def slice_lines(self, first: int, last: int) -> Sequence[str]:
        """The lines from `first` to before `last`, counted from 0 in the whole text."""
        return self.lines[first - self.lines_before : last - self.lines_before]

    @property
    def end_line(self) -> int:
        """Index, counted from 0 in the whole text, of the line after the section."""
        return self.lines_before + len(self.lines)


SectionChanges: TypeAlias = tuple[TextSection, list[LineChange]]
"""A section, and the changes in it."""


def changes_from_replacements(text: str, replacements: Sequence[TextReplacement]) -> Iterator[SectionChanges]:
    """The sections that replacements change; the replacements are in order and do not overlap."""
    group: list[TextReplacement] = []
    line = 0
    counted_to = 0
    for replacement in replacements:
        if group and text.count("\n", group[-1].end, replacement.start) > 2 * (_CONTEXT_LINES + 2):
            start, end = _surrounding_range(text, group)
            line += text.count("\n", counted_to, start)
            counted_to = start
            yield _section_changes(text[start:end], start, line, group)
            group = []
        group.append(replacement)
    if group:
        start, end = _surrounding_range(text, group)
        line += text.count("\n", counted_to, start)
        yield _section_changes(text[start:end], start, line, group)


def _surrounding_range(text: str, replacements: Sequence[TextReplacement]) -> tuple[int, int]:
    """Start and end of the whole lines around the replacements, context included."""
    start = replacements[0].start
    end = replacements[-1].end
    for _ in range(_CONTEXT_LINES + 2):
        start = max(text.rfind("\n", 0, start), 0)
        end = text.find("\n", end) + 1 or len(text)
    if start > 0 and text[start] == "\n":
        start += 1
    return start, end


def _section_changes(
    piece: str, offset: int, lines_before: int, replacements: Sequence[TextReplacement]
) -> SectionChanges:
    section = TextSection(split_lines(piece), lines_before)
    line_starts = [0, *accumulate(map(len, section.lines))]
    local = [TextReplacement(each.start - offset, each.end - offset, each.content) for each in replacements]
    changes: list[LineChange] = []
    for first, last, content in _group_by_line(piece, line_starts, local):
        removed = tuple(section.lines[first:last])
        added = tuple(split_lines(content))
        changes.append(_trim_common_lines(LineChange(lines_before + first + 1, removed, added)))
    return section, [change for change in changes if change.removed_lines or change.added_lines]


def _group_by_line(
    text: str, line_starts: list[int], replacements: Iterable[TextReplacement]
) -> Iterator[tuple[int, int, str]]:
    """Join replacements that share a line: first line, line after the last, and the new content of these lines."""
    first = 0
    last = 0
    position = 0
    pieces: list[str] = []
    for replacement in replacements:
        start_line = _line_index(text, line_starts, replacement.start)
        if pieces and start_line >= last:
            yield first, last, "".join([*pieces, text[position : line_starts[last]]])
            pieces = []
        if not pieces:
            first = last = start_line
            position = line_starts[first]
        pieces += text[position : replacement.start], replacement.content
        position = replacement.end
        last = max(last, _line_after(line_starts, replacement.end, pieces))
    if pieces:
        yield first, last, "".join([*pieces, text[position : line_starts[last]]])


def _line_index(text: str, line_starts: list[int], position: int) -> int:
    """The line of a position; the end of a text without a final newline belongs to its last line."""
    line = bisect_right(line_starts, position) - 1
    is_end = line == len(line_starts) - 1
    return line - 1 if is_end and text and not text.endswith("\n") else line


def _line_after(line_starts: list[int], end: int, pieces: list[str]) -> int:
    """The line after the last changed one. A line that begins at `end` is unchanged if the new text before it ends."""
    line = bisect_right(line_starts, end) - 1
    text_before = next((piece for piece in reversed(pieces) if piece), "\n")
    is_unchanged = line_starts[line] == end and text_before.endswith("\n")
    return min(line if is_unchanged else line + 1, len(line_starts) - 1)


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[LineChange]:
    """The changes that turn one list of lines into another."""
    whole = _trim_common_lines(LineChange(1, tuple(before), tuple(after)))
    removed = whole.removed_lines
    added = whole.added_lines
    if not (removed or added):
        return []
    if max(len(removed), len(added)) > _MAX_COMPARED_LINES:
        return [whole]
    opcodes = SequenceMatcher(None, removed, added).get_opcodes()
    return [
        LineChange(whole.line_number + old_start, removed[old_start:old_end], added[new_start:new_end])
        for tag, old_start, old_end, new_start, new_end in opcodes
        if tag != "equal"
    ]


def _trim_common_lines(change: LineChange) -> LineChange:
    """The change without equal lines at its start and its end."""
    removed = change.removed_lines
    added = change.added_lines
    shorter = min(len(removed), len(added))
    head = next((index for index in range(shorter) if removed[index] != added[index]), shorter)
    rest = shorter - head
    tail = next((index for index in range(rest) if removed[-1 - index] != added[-1 - index]), rest)
    return LineChange(change.line_number + head, removed[head : len(removed) - tail], added[head : len(added) - tail])


def render_unified_diff(
    path: str, sections: Iterable[SectionChanges], *, is_new: bool = False, max_lines: int = 200
) -> str:
    """A unified diff, cut after `max_lines` lines."""
    diff = [f"--- {'/dev/null' if is_new else f'a/{path}'}", f"+++ b/{path}"]
    line_shift = 0
    for section, changes in sections:
        for hunk in _group_hunks(changes):
            hunk_lines, line_shift = _render_hunk(section, hunk, line_shift)
            diff += hunk_lines
            if len(diff) > max_lines:
                return "\n".join([*diff[:max_lines], "[cut: the diff goes on]"])
    return "\n".join(diff)


def _group_hunks(changes: Sequence[LineChange]) -> Iterator[list[LineChange]]:
    """Groups of changes whose context lines touch."""
    hunk: list[LineChange] = []
    for change in changes:
        if hunk and change.line_number - _end_number(hunk[-1]) > 2 * _CONTEXT_LINES:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _end_number(change: LineChange) -> int:
    """Number of the line after the removed ones."""
    return change.line_number + len(change.removed_lines)


def _render_hunk(section: TextSection, hunk: list[LineChange], line_shift: int) -> tuple[list[str], int]:
    """The lines of a hunk, and by how many lines the text has grown up to its end."""
    first = max(hunk[0].line_number - 1 - _CONTEXT_LINES, section.lines_before)
    last = min(_end_number(hunk[-1]) - 1 + _CONTEXT_LINES, section.end_line)
    rendered: list[str] = []
    position = first
    growth = 0
    for change in hunk:
        rendered += [_render_line(" ", line) for line in section.slice_lines(position, change.line_number - 1)]
        rendered += [_render_line("-", line) for line in change.removed_lines]
        rendered += [_render_line("+", line) for line in change.added_lines]
        position = _end_number(change) - 1
        growth += len(change.added_lines) - len(change.removed_lines)
    rendered += [_render_line(" ", line) for line in section.slice_lines(position, last)]
    old_count = last - first
    new_count = old_count + growth
    # A range without lines names the line before it, as `diff -u` does.
    old_start = first + (old_count > 0)
    new_start = first + line_shift + (new_count > 0)
    header = f"@@ -{old_start},{old_count} +{new_start},{new_count} @@"
    return [header, *rendered], line_shift + growth


def _render_line(mark: str, line: str) -> str:
    text = replace_surrogates(line.removesuffix("\n"))
    if len(text) > _MAX_LINE_LENGTH:
        text = f"{text[:_MAX_LINE_LENGTH]} [cut]"
    return f"{mark}{text}" if line.endswith("\n") else f"{mark}{text}\n\\ No newline at end of file"
