"""Lines: an open file line by line, in blocks, with the same memory for a file of any size."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import AnyStr, BinaryIO, Generic

from toolwright.builtin.encoding import Encoding
from toolwright.core.errors import ToolError

BLOCK = 1 << 20
FAR = 4 << 30
"""Bytes (or characters) into a file beyond which no line is looked for."""


class Lines(Generic[AnyStr]):
    """Lines in their order; each ends in a newline but perhaps the last."""

    def __init__(self, read: Callable[[int], AnyStr], newline: AnyStr, stop: Callable[[], bool]) -> None:
        self._read: Callable[[int], AnyStr] = read
        self._newline: AnyStr = newline
        self._block: AnyStr = newline[:0]
        self._stop = stop
        self._at = self._passed = 0

    def more(self) -> bool:
        """Whether there is another line."""
        return self._at < len(self._block) or self._next_block()

    def _next_block(self) -> bool:
        if self._stop():
            raise ToolError("Nobody waits for this any more.", code="cancelled")
        self._block, self._at = self._read(BLOCK), 0
        self._passed += len(self._block)
        return bool(self._block)

    def skip(self, count: int) -> int:
        """Pass over so many lines; how many there were."""
        passed, begun = 0, False
        while passed < count:
            if not self.more():
                return passed + begun
            if self._passed > FAR:
                raise ToolError(f"Line {count + 1:,} is more than {FAR >> 30} GiB into the file.", code="too_large")
            here = self._block.count(self._newline, self._at)
            if passed + here >= count:
                self._at = self._after(count - passed)
                return count
            passed, begun = passed + here, not self._block.endswith(self._newline)
            self._at = len(self._block)
        return passed

    def _after(self, count: int) -> int:
        """Just behind the newline of that number in the block: found by halves, for there may be a million."""
        low, high = self._at, len(self._block)
        while high - low > 1:
            middle = (low + high) // 2
            here = self._block.count(self._newline, low, middle)
            low, high, count = (low, middle, count) if here >= count else (middle, high, count - here)
        return high

    def next(self, most: int) -> tuple[AnyStr, bool] | None:
        """The next line with its newline, or its first so many bytes; whether it was longer; None at the end."""
        pieces, length = list[AnyStr](), 0
        while self.more():
            found = self._block.find(self._newline, self._at)
            end = len(self._block) if found < 0 else found + 1
            pieces.append(self._block[self._at : min(end, self._at + max(most - length, 0))])
            length, self._at = length + end - self._at, end
            if found >= 0:
                break
        return (self._newline[:0].join(pieces), length > most) if length else None

    def rest(self) -> int:
        """How many lines are left; they are passed over."""
        passed, begun = 0, False
        while self.more():
            passed += self._block.count(self._newline, self._at)
            begun, self._at = not self._block.endswith(self._newline), len(self._block)
        return passed + begun


class FileLines:
    """The lines of a file as text. Bytes are made text only where a line is asked for."""

    def __init__(self, file: BinaryIO, encoding: Encoding, stop: Callable[[], bool]) -> None:
        self._encoding = encoding
        self._lines: Lines[bytes] | Lines[str]
        file.seek(len(encoding.mark))
        if encoding.is_wide:
            self._lines = Lines(_decoded(file, encoding.codec), "\n", stop)
        else:
            self._lines = Lines(file.read, b"\n", stop)
        self.more, self.skip, self.rest = self._lines.more, self._lines.skip, self._lines.rest

    def next(self, most: int) -> tuple[str, bool]:
        """The next line with its newline, or its first so many characters; whether it was longer."""
        # Four bytes for a character at most; what is cut in the middle lies beyond what is taken.
        found = self._lines.next(most + 2 if self._encoding.is_wide else 4 * most + 2)
        if found is None:
            return "", False
        line, longer = found
        text = line if isinstance(line, str) else line.decode(self._encoding.codec, "replace")
        bare = text.rstrip("\r\n")
        return (bare[:most], True) if longer or len(bare) > most else (text, False)


def _decoded(file: BinaryIO, codec: str) -> Callable[[int], str]:
    """Reads text from a file; nothing only at its end."""
    decode = codecs.getincrementaldecoder(codec)("replace").decode

    def read(count: int) -> str:
        while data := file.read(count):
            if text := decode(data):
                return text
        return decode(b"", True)

    return read
