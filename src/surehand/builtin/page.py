"""Page: some lines of a file, and where they stand in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from surehand.builtin.encoding import Encoding
from surehand.builtin.lines import FileLines

COUNTED = 1 << 30
"""Bytes of the largest file whose lines are all counted."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its newline; or as much of it as there was room for."""

    text: str
    cut: bool

    @property
    def bare(self) -> str:
        """Without its newline."""
        return self.text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True, slots=True)
class Page:
    """Lines of a file, counted from 1."""

    first: int
    lines: tuple[Line, ...]
    total: int | None
    """None where the file is too large for its lines to be counted."""
    more: bool
    """Whether lines follow."""

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + len(self.lines) - 1

    @property
    def truncated(self) -> bool:
        """Whether anything is missing at its end or in its lines."""
        return self.more or any(line.cut for line in self.lines)


def page_of(
    file: BinaryIO, encoding: Encoding, first: int, limit: int, *, line: int, room: int, stop: Callable[[], bool]
) -> Page:
    """At most `limit` lines, each cut at `line` characters; none is begun after `room` characters."""
    lines, length = FileLines(file, encoding, stop), os.fstat(file.fileno()).st_size
    skipped, taken, used = lines.skip(first - 1), list[Line](), 0
    while len(taken) < limit and used < room and not lines.lost and lines.more():
        taken.append(Line(*lines.next(line)))
        used += len(taken[-1].text.encode(errors="replace")) + 8
    more = lines.lost or lines.more()
    total = skipped + len(taken) + lines.rest() if length <= COUNTED or not more else None
    return Page(first, tuple(taken), total, more)
