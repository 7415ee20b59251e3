"""Bulk: how many values a message has, told before it is read: four megabytes of brackets take seconds to read."""

from __future__ import annotations

import re

from toolwright.providers.mcp.routes.trouble import Trouble

MOST_VALUES = 250_000
"""Values of one message, about; text counts as one, however long it is."""
_EMPTY_LINE = re.compile(r"\n\r?\n|\r\r")
_SMALL = 64 * 1024
"""Bytes below which nothing is counted."""


def too_bulky(frame: bytes | str) -> bool:
    """Whether a message has more values than are read."""
    if len(frame) <= _SMALL:
        return False
    data = frame.encode(errors="replace") if isinstance(frame, str) else frame
    return _marks(data) > MOST_VALUES and _marks(_without_texts(data)) > MOST_VALUES


class Gathered:
    """One event of a stream as it comes, piece by piece: told to be too bulky before it is whole, and is read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._marks, self._limit = 0, MOST_VALUES
        self._last = ""

    def too_bulky(self, piece: str) -> bool:
        """Whether the event has too many values with this piece."""
        self._pieces.append(piece.encode(errors="replace"))
        self._marks += _marks(self._pieces[-1])
        if self._marks > self._limit:
            if too_bulky(b"".join(self._pieces)):
                return True
            self._limit = 2 * self._marks  # most are in texts
        self._ended(piece)
        return False

    def _ended(self, piece: str) -> None:
        """What stands after an empty line is the next event."""
        *before, rest = _EMPTY_LINE.split(self._last + piece)
        self._last = rest[-3:]
        if before:
            self._pieces, self._limit = [rest.encode(errors="replace")], MOST_VALUES
            self._marks = _marks(self._pieces[0])


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _without_texts(data: bytes) -> bytes:
    """Roughly: what is no JSON is not read either."""
    return b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def bulky(what: str = f"more than {MOST_VALUES:,} values") -> Trouble:
    """What becomes of the request that it is the answer to."""
    message = f"The answer has {what} in it, which is not read. Ask for less at once."
    return Trouble(True, False, message, answered=True, code="too_large")
