"""Page: some lines of a file, and where they stand in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from surehand.builtin.encoding import TextEncoding
from surehand.builtin.lines import FileLineReader

MAX_COUNTED_FILE_BYTES = 1 << 30
"""Bytes of the largest file whose lines are all counted."""


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line with its newline; or as much of it as there was room for."""

    text: str
    is_cut: bool

    @property
    def text_without_newline(self) -> str:
        """Without its newline."""
        return self.text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True, slots=True)
class LinePage:
    """Lines of a file, counted from 1."""

    first_line: int
    lines: tuple[PageLine, ...]
    total_lines: int | None
    """None where the file is too large for its lines to be counted."""
    has_more: bool
    """Whether lines follow."""

    @property
    def last_line(self) -> int:
        """The number of its last line."""
        return self.first_line + len(self.lines) - 1

    @property
    def is_truncated(self) -> bool:
        """Whether anything is missing at its end or in its lines."""
        return self.has_more or any(line.is_cut for line in self.lines)


def read_page(
    file: BinaryIO,
    encoding: TextEncoding,
    first_line: int,
    max_lines: int,
    *,
    max_line_length: int,
    max_bytes: int,
    is_cancelled: Callable[[], bool],
) -> LinePage:
    """At most `limit` lines, each cut at `line` characters; none is begun after `room` characters."""
    lines, length = FileLineReader(file, encoding, is_cancelled), os.fstat(file.fileno()).st_size
    skipped, taken, used = lines.skip_lines(first_line - 1), list[PageLine](), 0
    while len(taken) < max_lines and used < max_bytes and not lines.line_too_long and lines.has_more():
        taken.append(PageLine(*lines.read_line(max_line_length)))
        used += len(taken[-1].text.encode(errors="replace")) + 8
    more = lines.line_too_long or lines.has_more()
    total = skipped + len(taken) + lines.count_remaining() if length <= MAX_COUNTED_FILE_BYTES or not more else None
    return LinePage(first_line, tuple(taken), total, more)
