"""Changes: which lines of a text become which others, and how that is shown as a unified diff."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TypeAlias

from surehand.builtin.document import Span
from surehand.core.sanitize import replace_surrogates

_AROUND = 3
_COMPARED = 2000
"""Lines on either side that are compared closely; beyond, the whole of it counts as changed."""
_LONG = 500
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class Change:
    """Lines that are replaced by others; `line` is the first one's number, counted from 1."""

    line: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    """Lines with their newlines; only newlines end a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a text, and how many come before them."""

    lines: Sequence[str]
    before: int = 0

    def between(self, first: int, last: int) -> Sequence[str]:
        """From one line on and up to another, which is not included; counted from 0 in the whole text."""
        return self.lines[first - self.before : last - self.before]

    @property
    def after(self) -> int:
        """The number, counted from 0, of the line behind it."""
        return self.before + len(self.lines)


Changed: TypeAlias = tuple[Passage, list[Change]]
"""A passage, and what changes in it."""


def from_spans(text: str, spans: Sequence[Span]) -> Iterator[Changed]:
    """The lines that spans, which are in order and apart, change. What is far from them is not looked at."""
    group: list[Span] = []
    line = at = 0
    for span in spans:
        if group and text.count("\n", group[-1].end, span.start) > 2 * (_AROUND + 2):
            start, end = _around(text, group)
            line, at = line + text.count("\n", at, start), start
            yield _changed(text[start:end], start, line, group)
            group = []
        group.append(span)
    if group:
        start, end = _around(text, group)
        yield _changed(text[start:end], start, line + text.count("\n", at, start), group)


def _around(text: str, spans: Sequence[Span]) -> tuple[int, int]:
    """Where the whole lines around them begin and end."""
    start, end = spans[0].start, spans[-1].end
    for _ in range(_AROUND + 2):
        start = max(text.rfind("\n", 0, start), 0)
        end = text.find("\n", end) + 1 or len(text)
    return start + (text[start : start + 1] == "\n" and start > 0), end


def _changed(piece: str, start: int, line: int, spans: Sequence[Span]) -> Changed:
    passage = Passage(lines_of(piece), line)
    starts = [0, *accumulate(map(len, passage.lines))]
    own = [Span(span.start - start, span.end - start, span.content) for span in spans]
    changes = [
        _trimmed(Change(line + first + 1, tuple(passage.lines[first:last]), tuple(lines_of(content))))
        for first, last, content in _blocks(piece, starts, own)
    ]
    return passage, [change for change in changes if change.removed or change.added]


def _blocks(text: str, starts: list[int], spans: Iterable[Span]) -> Iterator[tuple[int, int, str]]:
    """Spans that share a line, together: their first line, the one behind the last, and the new content of all."""
    first = last = at = 0
    pieces: list[str] = []
    for span in spans:
        begins = _line_of(text, starts, span.start)
        if pieces and begins >= last:
            yield first, last, "".join([*pieces, text[at : starts[last]]])
            pieces = []
        if not pieces:
            first = last = begins
            at = starts[first]
        pieces += text[at : span.start], span.content
        at = span.end
        last = max(last, _line_behind(starts, span.end, pieces))
    if pieces:
        yield first, last, "".join([*pieces, text[at : starts[last]]])


def _line_of(text: str, starts: list[int], position: int) -> int:
    """The line that a position is in; the end of a text without a newline is in its last line."""
    line = bisect_right(starts, position) - 1
    return line - 1 if line == len(starts) - 1 and text and not text.endswith("\n") else line


def _line_behind(starts: list[int], end: int, pieces: list[str]) -> int:
    """The line behind the last one that changes: one that begins here stays, if what comes before it is ended."""
    touched = bisect_right(starts, end) - 1
    before = next((piece for piece in reversed(pieces) if piece), "\n")
    stays = starts[touched] == end and before.endswith("\n")
    return min(touched if stays else touched + 1, len(starts) - 1)


def between(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    """What is different between two texts, line by line."""
    whole = _trimmed(Change(1, tuple(before), tuple(after)))
    if not (whole.removed or whole.added):
        return []
    if max(len(whole.removed), len(whole.added)) > _COMPARED:
        return [whole]
    found = SequenceMatcher(None, whole.removed, whole.added).get_opcodes()
    return [Change(whole.line + a, whole.removed[a:b], whole.added[c:d]) for tag, a, b, c, d in found if tag != "equal"]


def _trimmed(change: Change) -> Change:
    """Without the lines at its ends that stay as they are."""
    removed, added = change.removed, change.added
    most = min(len(removed), len(added))
    head = next((at for at in range(most) if removed[at] != added[at]), most)
    most -= head
    tail = next((at for at in range(most) if removed[-1 - at] != added[-1 - at]), most)
    return Change(change.line + head, removed[head : len(removed) - tail], added[head : len(added) - tail])


def patch(path: str, changed: Iterable[Changed], *, is_new: bool = False, most: int = 200) -> str:
    """A unified diff, of at most so many lines."""
    diff = [f"--- {'/dev/null' if is_new else f'a/{path}'}", f"+++ b/{path}"]
    shift = 0
    for passage, changes in changed:
        for hunk in _hunks(changes):
            shown, shift = _hunk(passage, hunk, shift)
            diff += shown
            if len(diff) > most:
                return "\n".join([*diff[:most], "[cut: the diff goes on]"])
    return "\n".join(diff)


def _hunks(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes whose surroundings touch."""
    hunk: list[Change] = []
    for change in changes:
        if hunk and change.line - (hunk[-1].line + len(hunk[-1].removed)) > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk(passage: Passage, hunk: list[Change], shift: int) -> tuple[list[str], int]:
    first = max(hunk[0].line - 1 - _AROUND, passage.before)
    last = min(hunk[-1].line - 1 + len(hunk[-1].removed) + _AROUND, passage.after)
    shown, at, grown = list[str](), first, 0
    for change in hunk:
        shown += [_shown(" ", line) for line in passage.between(at, change.line - 1)]
        shown += [_shown("-", line) for line in change.removed] + [_shown("+", line) for line in change.added]
        at, grown = change.line - 1 + len(change.removed), grown + len(change.added) - len(change.removed)
    shown += [_shown(" ", line) for line in passage.between(at, last)]
    old, new = last - first, last - first + grown
    head = f"@@ -{first + (old > 0)},{old} +{first + shift + (new > 0)},{new} @@"
    return [head, *shown], shift + grown


def _shown(mark: str, line: str) -> str:
    bare = replace_surrogates(line.removesuffix("\n"))
    cut = f"{bare[:_LONG]} [cut]" if len(bare) > _LONG else bare
    return f"{mark}{cut}" if line.endswith("\n") else f"{mark}{cut}\n\\ No newline at end of file"
