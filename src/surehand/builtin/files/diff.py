"""Changes: which lines of a text become which others, and how that is shown as a unified diff."""

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
"""Lines on either side that are compared closely; beyond, the whole of it counts as changed."""
_MAX_LINE_LENGTH = 500
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines that are replaced by others; `line` is the first one's number, counted from 1."""

    line_number: int
    removed_lines: tuple[str, ...]
    added_lines: tuple[str, ...]


def split_lines(text: str) -> list[str]:
    """Lines with their newlines; only newlines end a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@dataclass(frozen=True, slots=True)
class TextSection:
    """Lines of a text, and how many come before them."""

    lines: Sequence[str]
    lines_before: int = 0

    def slice_lines(self, first: int, last: int) -> Sequence[str]:
        """From one line on and up to another, which is not included; counted from 0 in the whole text."""
        return self.lines[first - self.lines_before : last - self.lines_before]

    @property
    def end_line(self) -> int:
        """The number, counted from 0, of the line behind it."""
        return self.lines_before + len(self.lines)


SectionChanges: TypeAlias = tuple[TextSection, list[LineChange]]
"""A passage, and what changes in it."""


def changes_from_replacements(text: str, replacements: Sequence[TextReplacement]) -> Iterator[SectionChanges]:
    """The lines that spans, which are in order and apart, change. What is far from them is not looked at."""
    group: list[TextReplacement] = []
    line = at = 0
    for span in replacements:
        if group and text.count("\n", group[-1].end, span.start) > 2 * (_CONTEXT_LINES + 2):
            start, end = _surrounding_range(text, group)
            line, at = line + text.count("\n", at, start), start
            yield _section_changes(text[start:end], start, line, group)
            group = []
        group.append(span)
    if group:
        start, end = _surrounding_range(text, group)
        yield _section_changes(text[start:end], start, line + text.count("\n", at, start), group)


def _surrounding_range(text: str, replacements: Sequence[TextReplacement]) -> tuple[int, int]:
    """Where the whole lines around them begin and end."""
    start, end = replacements[0].start, replacements[-1].end
    for _ in range(_CONTEXT_LINES + 2):
        start = max(text.rfind("\n", 0, start), 0)
        end = text.find("\n", end) + 1 or len(text)
    return start + (text[start : start + 1] == "\n" and start > 0), end


def _section_changes(
    piece: str, offset: int, lines_before: int, replacements: Sequence[TextReplacement]
) -> SectionChanges:
    passage = TextSection(split_lines(piece), lines_before)
    starts = [0, *accumulate(map(len, passage.lines))]
    own = [TextReplacement(span.start - offset, span.end - offset, span.content) for span in replacements]
    changes = [
        _trim_common_lines(
            LineChange(lines_before + first + 1, tuple(passage.lines[first:last]), tuple(split_lines(content)))
        )
        for first, last, content in _group_by_line(piece, starts, own)
    ]
    return passage, [change for change in changes if change.removed_lines or change.added_lines]


def _group_by_line(
    text: str, line_starts: list[int], replacements: Iterable[TextReplacement]
) -> Iterator[tuple[int, int, str]]:
    """Spans that share a line, together: their first line, the one behind the last, and the new content of all."""
    first = last = at = 0
    pieces: list[str] = []
    for span in replacements:
        begins = _line_index(text, line_starts, span.start)
        if pieces and begins >= last:
            yield first, last, "".join([*pieces, text[at : line_starts[last]]])
            pieces = []
        if not pieces:
            first = last = begins
            at = line_starts[first]
        pieces += text[at : span.start], span.content
        at = span.end
        last = max(last, _line_after(line_starts, span.end, pieces))
    if pieces:
        yield first, last, "".join([*pieces, text[at : line_starts[last]]])


def _line_index(text: str, line_starts: list[int], position: int) -> int:
    """The line that a position is in; the end of a text without a newline is in its last line."""
    line = bisect_right(line_starts, position) - 1
    return line - 1 if line == len(line_starts) - 1 and text and not text.endswith("\n") else line


def _line_after(line_starts: list[int], end: int, pieces: list[str]) -> int:
    """The line behind the last one that changes: one that begins here stays, if what comes before it is ended."""
    touched = bisect_right(line_starts, end) - 1
    before = next((piece for piece in reversed(pieces) if piece), "\n")
    stays = line_starts[touched] == end and before.endswith("\n")
    return min(touched if stays else touched + 1, len(line_starts) - 1)


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[LineChange]:
    """What is different between two texts, line by line."""
    whole = _trim_common_lines(LineChange(1, tuple(before), tuple(after)))
    if not (whole.removed_lines or whole.added_lines):
        return []
    if max(len(whole.removed_lines), len(whole.added_lines)) > _MAX_COMPARED_LINES:
        return [whole]
    found = SequenceMatcher(None, whole.removed_lines, whole.added_lines).get_opcodes()
    return [
        LineChange(whole.line_number + a, whole.removed_lines[a:b], whole.added_lines[c:d])
        for tag, a, b, c, d in found
        if tag != "equal"
    ]


def _trim_common_lines(change: LineChange) -> LineChange:
    """Without the lines at its ends that stay as they are."""
    removed, added = change.removed_lines, change.added_lines
    most = min(len(removed), len(added))
    head = next((at for at in range(most) if removed[at] != added[at]), most)
    most -= head
    tail = next((at for at in range(most) if removed[-1 - at] != added[-1 - at]), most)
    return LineChange(change.line_number + head, removed[head : len(removed) - tail], added[head : len(added) - tail])


def render_unified_diff(
    path: str, sections: Iterable[SectionChanges], *, is_new: bool = False, max_lines: int = 200
) -> str:
    """A unified diff, of at most so many lines."""
    diff = [f"--- {'/dev/null' if is_new else f'a/{path}'}", f"+++ b/{path}"]
    shift = 0
    for passage, changes in sections:
        for hunk in _group_hunks(changes):
            shown, shift = _render_hunk(passage, hunk, shift)
            diff += shown
            if len(diff) > max_lines:
                return "\n".join([*diff[:max_lines], "[cut: the diff goes on]"])
    return "\n".join(diff)


def _group_hunks(changes: Sequence[LineChange]) -> Iterator[list[LineChange]]:
    """Changes whose surroundings touch."""
    hunk: list[LineChange] = []
    for change in changes:
        if hunk and change.line_number - (hunk[-1].line_number + len(hunk[-1].removed_lines)) > 2 * _CONTEXT_LINES:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _render_hunk(section: TextSection, hunk: list[LineChange], line_shift: int) -> tuple[list[str], int]:
    first = max(hunk[0].line_number - 1 - _CONTEXT_LINES, section.lines_before)
    last = min(hunk[-1].line_number - 1 + len(hunk[-1].removed_lines) + _CONTEXT_LINES, section.end_line)
    shown, at, grown = list[str](), first, 0
    for change in hunk:
        shown += [_render_line(" ", line) for line in section.slice_lines(at, change.line_number - 1)]
        shown += [_render_line("-", line) for line in change.removed_lines] + [
            _render_line("+", line) for line in change.added_lines
        ]
        at, grown = (
            change.line_number - 1 + len(change.removed_lines),
            grown + len(change.added_lines) - len(change.removed_lines),
        )
    shown += [_render_line(" ", line) for line in section.slice_lines(at, last)]
    old, new = last - first, last - first + grown
    head = f"@@ -{first + (old > 0)},{old} +{first + line_shift + (new > 0)},{new} @@"
    return [head, *shown], line_shift + grown


def _render_line(mark: str, line: str) -> str:
    bare = replace_surrogates(line.removesuffix("\n"))
    cut = f"{bare[:_MAX_LINE_LENGTH]} [cut]" if len(bare) > _MAX_LINE_LENGTH else bare
    return f"{mark}{cut}" if line.endswith("\n") else f"{mark}{cut}\n\\ No newline at end of file"
