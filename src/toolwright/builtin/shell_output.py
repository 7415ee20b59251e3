"""What commands print: kept within bounds, and made readable and harmless for whoever is shown it."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

LIMIT = 30_000
"""Bytes of each stream that a model is shown."""

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # titles, links and so on
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile("[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]")


def readable(text: str) -> str:
    """Text without what only a terminal understands; other control and invisible characters are made visible."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return _INVISIBLE.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


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
            return readable((self._head + self._tail).decode(errors="replace"))
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # drops half a character
        tail = bytes(self._tail[-self._half :])
        start = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        missing = f"\n[... {self.left_out:,} bytes left out ...]\n"
        return readable(head) + missing + readable(tail[start:].decode(errors="replace"))
