"""What commands print: kept within bounds, and made readable and harmless for whoever is shown it."""

from __future__ import annotations

from codecs import getincrementaldecoder

from surehand.core.sanitize import escape_terminal_output

MAX_STREAM_BYTES = 30_000
"""Bytes of each stream that a model is shown."""


class HeadTailBuffer:
    """The first and the last bytes of a stream; what lies between is counted and let go."""

    def __init__(self, max_bytes: int = MAX_STREAM_BYTES) -> None:
        self._half_bytes = max_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.total_bytes += len(data)
        if room := self._half_bytes - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half_bytes :]
        if len(self._tail) > 2 * self._half_bytes:
            del self._tail[: -self._half_bytes]

    @property
    def omitted_bytes(self) -> int:
        """Bytes that are in neither end."""
        return max(self.total_bytes - len(self._head) - self._half_bytes, 0)

    @property
    def text(self) -> str:
        """Both ends, readable, and between them how much is missing."""
        if not self.omitted_bytes:
            return escape_terminal_output((self._head + self._tail).decode(errors="replace"))
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # drops half a character
        tail = bytes(self._tail[-self._half_bytes :])
        start = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        missing = f"\n[... {self.omitted_bytes:,} bytes left out ...]\n"
        return escape_terminal_output(head) + missing + escape_terminal_output(tail[start:].decode(errors="replace"))
