"""What commands print: kept within bounds, and made readable and harmless for whoever is shown it."""

from __future__ import annotations

from codecs import getincrementaldecoder

from surehand.core.sanitize import escape_terminal_output

LIMIT = 30_000
"""Bytes of each stream that a model is shown."""


class Kept:
    """The first and the last bytes of a stream; what lies between is counted and let go."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._half = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.total += len(data)
        if room := self._half - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """Bytes that are in neither end."""
        return max(self.total - len(self._head) - self._half, 0)

    @property
    def text(self) -> str:
        """Both ends, readable, and between them how much is missing."""
        if not self.left_out:
            return escape_terminal_output((self._head + self._tail).decode(errors="replace"))
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # drops half a character
        tail = bytes(self._tail[-self._half :])
        start = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        missing = f"\n[... {self.left_out:,} bytes left out ...]\n"
        return escape_terminal_output(head) + missing + escape_terminal_output(tail[start:].decode(errors="replace"))
