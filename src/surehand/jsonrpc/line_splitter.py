"""`LineSplitter` splits chunks of bytes into newline-delimited messages, for both sides of the stdio transport."""

from __future__ import annotations

from surehand.jsonrpc.codec import ID_SEARCH_BYTES, OverlongFrame


class LineSplitter:
    """Collects chunks and returns whole lines. Of a line over the limit only the beginning and the end are kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._length = 0
        self._overlong: OverlongFrame | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no unfinished line is kept."""
        return not self._parts and self._overlong is None

    @property
    def is_overlong(self) -> bool:
        """Whether the unfinished line is longer than the limit already."""
        return self._overlong is not None

    def split(self, chunk: bytes) -> list[bytes | OverlongFrame]:
        """The lines that end in this chunk, without their line breaks; the rest is kept for the next one."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | OverlongFrame] = [*ended]
        if len(chunk) > self._max_bytes:
            lines = [self._check_length(line) for line in ended]
        if ended and not self.is_empty:
            lines[0] = self._finish(ended[0])
        if rest:
            self._add(rest)
        return lines

    def _check_length(self, line: bytes) -> bytes | OverlongFrame:
        if len(line) <= self._max_bytes:
            return line
        return OverlongFrame(line[:ID_SEARCH_BYTES], line[-ID_SEARCH_BYTES:], self._max_bytes)

    def _finish(self, last_part: bytes) -> bytes | OverlongFrame:
        self._add(last_part)
        line = self._overlong or b"".join(self._parts)
        self._parts = []
        self._length = 0
        self._overlong = None
        return line

    def _add(self, part: bytes) -> None:
        if self._overlong is not None:
            tail = (self._overlong.tail + part[-ID_SEARCH_BYTES:])[-ID_SEARCH_BYTES:]
            self._overlong = OverlongFrame(self._overlong.head, tail, self._max_bytes)
            return
        self._parts.append(part)
        self._length += len(part)
        if self._length > self._max_bytes:
            whole = b"".join(self._parts)
            self._parts = []
            self._overlong = OverlongFrame(whole[:ID_SEARCH_BYTES], whole[-ID_SEARCH_BYTES:], self._max_bytes)
