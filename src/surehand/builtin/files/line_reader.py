"""Lines: an open file line by line, in blocks, with the same memory for a file of any size."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import AnyStr, BinaryIO, Generic

from surehand.builtin.files.text_encoding import TextEncoding
from surehand.core.errors import ToolError

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


BLOCK_BYTES = 1 << 20
MAX_SCAN_BYTES = 1 << 30
"""Bytes (or characters) that are read to find a line, or the end of one."""


class LineReader(Generic[AnyStr]):
    """Lines in their order; each ends in a newline but perhaps the last."""

    def __init__(
        self,
        read: Callable[[int], AnyStr],
        newline: AnyStr,
        *,
        is_cancelled: Callable[[], bool],
        skip_hole: Callable[[], bool] = lambda: False,
    ) -> None:
        self._read: Callable[[int], AnyStr] = read
        self._newline: AnyStr = newline
        self._block: AnyStr = newline[:0]
        self._is_cancelled, self._skip_hole = is_cancelled, skip_hole
        self._position = self._total_read = 0
        self._in_partial_line = False
        """Whether what was passed over last did not end a line."""
        self.line_too_long = False
        """Whether the end of a line is too far away: no other can be read."""

    def has_more(self, *, skipping: bool = False) -> bool:
        """Whether there is another line; holes are leapt over by whoever only passes."""
        if self._position < len(self._block):
            return True
        if self._is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")
        if skipping and self._skip_hole():
            self._in_partial_line = True
        self._block, self._position = self._read(BLOCK_BYTES), 0
        self._total_read += len(self._block)
        return bool(self._block)

    def skip_lines(self, count: int) -> int:
        """Pass over so many lines; how many there were."""
        passed = 0
        while passed < count:
            if not self.has_more(skipping=True):
                return passed + self._take_partial_line()
            if self._total_read > MAX_SCAN_BYTES:
                raise ToolError(
                    f"Line {count + 1:,} is more than {MAX_SCAN_BYTES >> 30} GiB into the file.", code="too_large"
                )
            here = self._block.count(self._newline, self._position)
            if passed + here >= count:
                self._in_partial_line, self._position = False, self._position_after_newlines(count - passed)
                return count
            passed += here
            self._skip_block()
        return passed

    def _skip_block(self) -> None:
        self._in_partial_line, self._position = not self._block.endswith(self._newline), len(self._block)

    def _position_after_newlines(self, count: int) -> int:
        """Just behind the newline of that number in the block: found by halves, for there may be a million."""
        low, high = self._position, len(self._block)
        while high - low > 1:
            middle = (low + high) // 2
            here = self._block.count(self._newline, low, middle)
            low, high, count = (low, middle, count) if here >= count else (middle, high, count - here)
        return high

    def read_line(self, max_length: int) -> tuple[AnyStr, bool]:
        """The next line with its newline, or its first so many bytes; and whether it was longer."""
        pieces, length, begun = list[AnyStr](), 0, self._total_read
        while self.has_more(skipping=length > max_length):
            found = self._block.find(self._newline, self._position)
            end = len(self._block) if found < 0 else found + 1
            pieces.append(self._block[self._position : min(end, self._position + max(max_length - length, 0))])
            length, self._position = length + end - self._position, end
            self.line_too_long = found < 0 and self._total_read - begun > MAX_SCAN_BYTES
            if found >= 0 or self.line_too_long:
                break
        self._in_partial_line = False
        return self._newline[:0].join(pieces), length > max_length

    def count_remaining(self) -> int:
        """How many lines are left; they are passed over."""
        passed = 0
        while self.has_more(skipping=True):
            passed += self._block.count(self._newline, self._position)
            self._skip_block()
        return passed + self._take_partial_line()

    def _take_partial_line(self) -> bool:
        """Whether there is a last line without a newline, which is counted once."""
        begun, self._in_partial_line = self._in_partial_line, False
        return begun


class FileLineReader:
    """The lines of a file as text. Bytes are made text only where a line is asked for."""

    def __init__(self, file: BinaryIO, encoding: TextEncoding, is_cancelled: Callable[[], bool]) -> None:
        self._encoding = encoding
        self._reader: LineReader[bytes] | LineReader[str]
        file.seek(len(encoding.byte_order_mark))
        bare: BinaryIO = file.raw  # type: ignore[attr-defined]  # blocks need no buffer, and leaps would confuse it
        bare.seek(len(encoding.byte_order_mark))
        if encoding.is_wide:
            self._reader = LineReader(_decoding_reader(bare, encoding.codec), "\n", is_cancelled=is_cancelled)
        else:
            self._reader = LineReader(
                bare.read, b"\n", is_cancelled=is_cancelled, skip_hole=lambda: _skip_file_hole(bare)
            )
        self.skip_lines, self.count_remaining = self._reader.skip_lines, self._reader.count_remaining

    @property
    def line_too_long(self) -> bool:
        """Whether the last line's end is too far away: no other can be read."""
        return self._reader.line_too_long

    def has_more(self) -> bool:
        """Whether there is another line."""
        return self._reader.has_more()

    def read_line(self, max_length: int) -> tuple[str, bool]:
        """The next line with its newline, or its first so many characters; and whether it was longer."""
        # Four bytes for a character at most; what is cut in the middle lies beyond what is taken.
        line, longer = self._reader.read_line(max_length + 2 if self._encoding.is_wide else 4 * max_length + 2)
        text = line if isinstance(line, str) else line.decode(self._encoding.codec, "replace")
        bare = text.rstrip("\r\n")
        return (bare[:max_length], True) if longer or len(bare) > max_length else (text, False)


def _skip_file_hole(file: BinaryIO) -> bool:
    """Over a hole in a file, which has no newline; whether there was one."""
    here = file.tell()
    try:
        data = os.lseek(file.fileno(), here, os.SEEK_DATA)
    except OSError as error:  # ENXIO: nothing but a hole up to the end; else there are no holes here
        data = os.fstat(file.fileno()).st_size if error.errno == errno.ENXIO else here
    file.seek(max(data, here))
    return data > here


def _decoding_reader(file: BinaryIO, codec: str) -> Callable[[int], str]:
    """Reads text from a file; nothing only at its end."""
    decode = codecs.getincrementaldecoder(codec)("replace").decode

    def read(count: int) -> str:
        while data := file.read(count):
            if text := decode(data):
                return text
        return decode(b"", True)

    return read
