"""Reads pages of lines from a file of any size in blocks, with constant memory. Used by `read` and `read_file`."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import AnyStr, BinaryIO, Generic

from surehand.builtin.files.text_encoding import TextEncoding
from surehand.core.errors import ToolError

BLOCK_BYTES = 1 << 20
MAX_SCAN_BYTES = 1 << 30
"""Bytes (or characters) that are read to find a line, or the end of one."""
MAX_COUNTED_FILE_BYTES = 1 << 30
"""Largest file whose lines are all counted."""
_LINE_OVERHEAD_BYTES = 8
"""What a line number and a tab add to each line of a page."""


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line with its newline, or the start of a line that is too long."""

    text: str
    is_cut: bool

    @property
    def text_without_newline(self) -> str:
        """The text without `\\n` or `\\r\\n`."""
        return self.text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True, slots=True)
class LinePage:
    """Consecutive lines of a file; lines are counted from 1."""

    first_line: int
    lines: tuple[PageLine, ...]
    total_lines: int | None
    """None if the file is too large to count its lines."""
    has_more: bool
    """Whether lines follow the page."""

    @property
    def last_line(self) -> int:
        """Number of the last line."""
        return self.first_line + len(self.lines) - 1

    @property
    def is_truncated(self) -> bool:
        """Whether lines follow, or a line is cut."""
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
    """Read at most `max_lines` lines, each cut at `max_line_length`; no line starts after `max_bytes`."""
    reader = FileLineReader(file, encoding, is_cancelled)
    file_size = os.fstat(file.fileno()).st_size
    skipped = reader.skip_lines(first_line - 1)
    lines: list[PageLine] = []
    used_bytes = 0
    while len(lines) < max_lines and used_bytes < max_bytes and not reader.line_too_long and reader.has_more():
        text, is_cut = reader.read_line(max_line_length)
        lines.append(PageLine(text, is_cut))
        used_bytes += len(text.encode(errors="replace")) + _LINE_OVERHEAD_BYTES
    has_more = reader.line_too_long or reader.has_more()
    total_lines: int | None = None
    if file_size <= MAX_COUNTED_FILE_BYTES or not has_more:
        total_lines = skipped + len(lines) + reader.count_remaining()
    return LinePage(first_line, tuple(lines), total_lines, has_more)


def page_of_lines(
    lines: list[str], first_line: int, max_lines: int, *, max_line_length: int, max_bytes: int
) -> LinePage:
    """The same page of lines that are in memory, without their newlines."""
    page: list[PageLine] = []
    used_bytes = 0
    for line in lines[first_line - 1 : first_line - 1 + max_lines]:
        if used_bytes >= max_bytes:
            break
        page.append(PageLine(line[:max_line_length], len(line) > max_line_length))
        used_bytes += len(page[-1].text.encode(errors="replace")) + _LINE_OVERHEAD_BYTES
    has_more = first_line - 1 + len(page) < len(lines)
    return LinePage(first_line, tuple(page), len(lines), has_more)


class LineReader(Generic[AnyStr]):
    """Reads lines in order, of bytes or of text; each line ends in a newline, except perhaps the last."""

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
        self._is_cancelled = is_cancelled
        self._skip_hole = skip_hole
        self._position = 0
        self._total_read = 0
        self._in_partial_line = False
        """Whether the skipped part ended inside a line."""
        self.line_too_long = False
        """Whether the end of the current line is beyond `MAX_SCAN_BYTES`; no further line can be read then."""

    def has_more(self, *, skipping: bool = False) -> bool:
        """Whether there is another line; `skipping` also jumps over holes of a sparse file."""
        if self._position < len(self._block):
            return True
        if self._is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")
        if skipping and self._skip_hole():
            self._in_partial_line = True
        self._block = self._read(BLOCK_BYTES)
        self._position = 0
        self._total_read += len(self._block)
        return bool(self._block)

    def skip_lines(self, count: int) -> int:
        """Skip `count` lines, and return how many there were."""
        skipped = 0
        while skipped < count:
            if not self.has_more(skipping=True):
                return skipped + self._take_partial_line()
            if self._total_read > MAX_SCAN_BYTES:
                problem = f"Line {count + 1:,} is more than {MAX_SCAN_BYTES >> 30} GiB into the file."
                raise ToolError(problem, code="too_large")
            in_block = self._block.count(self._newline, self._position)
            if skipped + in_block >= count:
                self._in_partial_line = False
                self._position = self._position_after_newlines(count - skipped)
                return count
            skipped += in_block
            self._skip_block()
        return skipped

    def _skip_block(self) -> None:
        self._in_partial_line = not self._block.endswith(self._newline)
        self._position = len(self._block)

    def _position_after_newlines(self, count: int) -> int:
        """The position after the given number of newlines in the block, by bisection.

        Counting in halves is fast C code; a loop over the lines would run once for each of up to a million newlines.
        """
        low = self._position
        high = len(self._block)
        while high - low > 1:
            middle = (low + high) // 2
            in_first_half = self._block.count(self._newline, low, middle)
            if in_first_half >= count:
                high = middle
            else:
                low = middle
                count -= in_first_half
        return high

    def read_line(self, max_length: int) -> tuple[AnyStr, bool]:
        """The next line with its newline, cut at `max_length`, and whether it was longer."""
        pieces: list[AnyStr] = []
        length = 0
        read_before = self._total_read
        while self.has_more(skipping=length > max_length):
            newline = self._block.find(self._newline, self._position)
            end = len(self._block) if newline < 0 else newline + 1
            room = max(max_length - length, 0)
            pieces.append(self._block[self._position : min(end, self._position + room)])
            length += end - self._position
            self._position = end
            self.line_too_long = newline < 0 and self._total_read - read_before > MAX_SCAN_BYTES
            if newline >= 0 or self.line_too_long:
                break
        self._in_partial_line = False
        return self._newline[:0].join(pieces), length > max_length

    def count_remaining(self) -> int:
        """Skip the remaining lines, and return how many there were."""
        skipped = 0
        while self.has_more(skipping=True):
            skipped += self._block.count(self._newline, self._position)
            self._skip_block()
        return skipped + self._take_partial_line()

    def _take_partial_line(self) -> bool:
        """Whether the file ends in a line without a newline; true once, so that it is counted once."""
        was_partial = self._in_partial_line
        self._in_partial_line = False
        return was_partial


class FileLineReader:
    """Reads the lines of a file as text; only lines that are returned are decoded."""

    def __init__(self, file: BinaryIO, encoding: TextEncoding, is_cancelled: Callable[[], bool]) -> None:
        self._encoding = encoding
        self._reader: LineReader[bytes] | LineReader[str]
        file.seek(len(encoding.byte_order_mark))
        # Whole blocks need no buffer, and a buffer would not notice the seeks over holes.
        raw: BinaryIO = file.raw  # type: ignore[attr-defined]  # a buffered file has it, which BinaryIO does not say
        raw.seek(len(encoding.byte_order_mark))
        if encoding.is_wide:
            self._reader = LineReader(_decoding_reader(raw, encoding.codec), "\n", is_cancelled=is_cancelled)
        else:
            self._reader = LineReader(
                raw.read, b"\n", is_cancelled=is_cancelled, skip_hole=lambda: _skip_file_hole(raw)
            )
        self.skip_lines = self._reader.skip_lines
        self.count_remaining = self._reader.count_remaining

    @property
    def line_too_long(self) -> bool:
        """Whether the end of the current line is too far away; no further line can be read then."""
        return self._reader.line_too_long

    def has_more(self) -> bool:
        """Whether there is another line."""
        return self._reader.has_more()

    def read_line(self, max_length: int) -> tuple[str, bool]:
        """The next line with its newline, cut at `max_length` characters, and whether it was longer."""
        # A character takes at most four bytes, so one that is cut in the middle lies beyond `max_length`.
        raw_length = max_length + 2 if self._encoding.is_wide else 4 * max_length + 2
        line, is_longer = self._reader.read_line(raw_length)
        text = line if isinstance(line, str) else line.decode(self._encoding.codec, "replace")
        without_newline = text.rstrip("\r\n")
        if is_longer or len(without_newline) > max_length:
            return without_newline[:max_length], True
        return text, False


def _skip_file_hole(file: BinaryIO) -> bool:
    """Seek over a hole of a sparse file, which holds no newline; return whether there was one."""
    position = file.tell()
    try:
        # SEEK_DATA: the kernel knows which blocks of a file exist, and skips the others without reading zeros.
        next_data = os.lseek(file.fileno(), position, os.SEEK_DATA)
    except OSError as error:
        # ENXIO: only a hole is left up to the end. Anything else: the file system does not report holes.
        next_data = os.fstat(file.fileno()).st_size if error.errno == errno.ENXIO else position
    file.seek(max(next_data, position))
    return next_data > position


def _decoding_reader(file: BinaryIO, codec: str) -> Callable[[int], str]:
    """A read function that decodes; it returns an empty text only at the end of the file."""
    decode = codecs.getincrementaldecoder(codec)("replace").decode

    def read(count: int) -> str:
        while data := file.read(count):
            if text := decode(data):
                return text
        return decode(b"", True)

    return read
