"""Lines: an open file line by line, in blocks, with the same memory for a file of any size."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Callable
from typing import AnyStr, BinaryIO, Generic

from surehand.builtin.encoding import Encoding
from surehand.core.errors import ToolError

BLOCK = 1 << 20
FAR = 1 << 30
"""Bytes (or characters) that are read to find a line, or the end of one."""


class Lines(Generic[AnyStr]):
    """Lines in their order; each ends in a newline but perhaps the last."""

    def __init__(
        self,
        read: Callable[[int], AnyStr],
        newline: AnyStr,
        *,
        stop: Callable[[], bool],
        leap: Callable[[], bool] = lambda: False,
    ) -> None:
        self._read: Callable[[int], AnyStr] = read
        self._newline: AnyStr = newline
        self._block: AnyStr = newline[:0]
        self._stop, self._leap = stop, leap
        self._at = self._passed = 0
        self._begun = False
        """Whether what was passed over last did not end a line."""
        self.lost = False
        """Whether the end of a line is too far away: no other can be read."""

    def more(self, *, passing: bool = False) -> bool:
        """Whether there is another line; holes are leapt over by whoever only passes."""
        if self._at < len(self._block):
            return True
        if self._stop():
            raise ToolError("Nobody waits for this any more.", code="cancelled")
        if passing and self._leap():
            self._begun = True
        self._block, self._at = self._read(BLOCK), 0
        self._passed += len(self._block)
        return bool(self._block)

    def skip(self, count: int) -> int:
        """Pass over so many lines; how many there were."""
        passed = 0
        while passed < count:
            if not self.more(passing=True):
                return passed + self._last()
            if self._passed > FAR:
                raise ToolError(f"Line {count + 1:,} is more than {FAR >> 30} GiB into the file.", code="too_large")
            here = self._block.count(self._newline, self._at)
            if passed + here >= count:
                self._begun, self._at = False, self._after(count - passed)
                return count
            passed += here
            self._pass_block()
        return passed

    def _pass_block(self) -> None:
        self._begun, self._at = not self._block.endswith(self._newline), len(self._block)

    def _after(self, count: int) -> int:
        """Just behind the newline of that number in the block: found by halves, for there may be a million."""
        low, high = self._at, len(self._block)
        while high - low > 1:
            middle = (low + high) // 2
            here = self._block.count(self._newline, low, middle)
            low, high, count = (low, middle, count) if here >= count else (middle, high, count - here)
        return high

    def next(self, most: int) -> tuple[AnyStr, bool]:
        """The next line with its newline, or its first so many bytes; and whether it was longer."""
        pieces, length, begun = list[AnyStr](), 0, self._passed
        while self.more(passing=length > most):
            found = self._block.find(self._newline, self._at)
            end = len(self._block) if found < 0 else found + 1
            pieces.append(self._block[self._at : min(end, self._at + max(most - length, 0))])
            length, self._at = length + end - self._at, end
            self.lost = found < 0 and self._passed - begun > FAR
            if found >= 0 or self.lost:
                break
        self._begun = False
        return self._newline[:0].join(pieces), length > most

    def rest(self) -> int:
        """How many lines are left; they are passed over."""
        passed = 0
        while self.more(passing=True):
            passed += self._block.count(self._newline, self._at)
            self._pass_block()
        return passed + self._last()

    def _last(self) -> bool:
        """Whether there is a last line without a newline, which is counted once."""
        begun, self._begun = self._begun, False
        return begun


class FileLines:
    """The lines of a file as text. Bytes are made text only where a line is asked for."""

    def __init__(self, file: BinaryIO, encoding: Encoding, stop: Callable[[], bool]) -> None:
        self._encoding = encoding
        self._lines: Lines[bytes] | Lines[str]
        file.seek(len(encoding.mark))
        bare: BinaryIO = file.raw  # type: ignore[attr-defined]  # blocks need no buffer, and leaps would confuse it
        bare.seek(len(encoding.mark))
        if encoding.is_wide:
            self._lines = Lines(_decoded(bare, encoding.codec), "\n", stop=stop)
        else:
            self._lines = Lines(bare.read, b"\n", stop=stop, leap=lambda: _leap(bare))
        self.skip, self.rest = self._lines.skip, self._lines.rest

    @property
    def lost(self) -> bool:
        """Whether the last line's end is too far away: no other can be read."""
        return self._lines.lost

    def more(self) -> bool:
        """Whether there is another line."""
        return self._lines.more()

    def next(self, most: int) -> tuple[str, bool]:
        """The next line with its newline, or its first so many characters; and whether it was longer."""
        # Four bytes for a character at most; what is cut in the middle lies beyond what is taken.
        line, longer = self._lines.next(most + 2 if self._encoding.is_wide else 4 * most + 2)
        text = line if isinstance(line, str) else line.decode(self._encoding.codec, "replace")
        bare = text.rstrip("\r\n")
        return (bare[:most], True) if longer or len(bare) > most else (text, False)


def _leap(file: BinaryIO) -> bool:
    """Over a hole in a file, which has no newline; whether there was one."""
    here = file.tell()
    try:
        data = os.lseek(file.fileno(), here, os.SEEK_DATA)
    except OSError as error:  # ENXIO: nothing but a hole up to the end; else there are no holes here
        data = os.fstat(file.fileno()).st_size if error.errno == errno.ENXIO else here
    file.seek(max(data, here))
    return data > here


def _decoded(file: BinaryIO, codec: str) -> Callable[[int], str]:
    """Reads text from a file; nothing only at its end."""
    decode = codecs.getincrementaldecoder(codec)("replace").decode

    def read(count: int) -> str:
        while data := file.read(count):
            if text := decode(data):
                return text
        return decode(b"", True)

    return read
