"""Limits on JSON-RPC messages, checked on the raw bytes before anything is parsed.

A limit on bytes is not enough: four megabytes of brackets take seconds to parse and hundreds of megabytes to hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BYTES_PER_VALUE = 128
"""Memory that one parsed JSON value takes, roughly."""
_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What one side accepts of the other in one message."""

    max_values: int
    """Numbers, strings, keys, lists and objects, roughly; a string counts as one, however long it is."""
    max_id_length: int | None = None
    """Characters of a request id or progress token, which are repeated in every message about the request."""
    max_initialize_bytes: int | None = None
    """Bytes of an `initialize` request, whose content is kept as long as the session."""
    allow_non_finite: bool = False
    """Whether NaN and infinities are parsed. JSON does not have them, but Python servers write them."""


CLIENT_MESSAGE_LIMITS = MessageLimits(max_values=50_000, max_id_length=256, max_initialize_bytes=64 << 10)
"""What a server accepts of a client."""
SERVER_MESSAGE_LIMITS = MessageLimits(max_values=250_000, allow_non_finite=True)
"""What a client accepts of a server, whose results may be large."""


def has_too_many_values(data: bytes, max_values: int) -> bool:
    """Whether a message has more values than the limit, counted without parsing it."""
    # A message cannot have more values than bytes, so a short one is not counted at all.
    if len(data) <= max_values or _count_separators(data) <= max_values:
        return False
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if without_escapes.count(b'"') > 4 * max_values:  # a key and a string for each value
        return True
    outside_strings = b"".join(without_escapes.split(b'"')[::2])
    return _count_separators(outside_strings) > max_values


def estimate_memory_bytes(data: bytes, max_values: int) -> int:
    """Bytes that a message takes while it is being handled, roughly: its text and its parsed values."""
    return len(data) + BYTES_PER_VALUE * min(_count_separators(data), max_values)


def _count_separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


class EventStreamLimit:
    """Counts the values of each event of an event stream while its bytes arrive in pieces."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._pieces: list[bytes] = []
        self._separators = 0
        self._next_check = max_values
        self._last_bytes = b""

    def is_exceeded_by(self, piece: bytes) -> bool:
        """Add a piece, and say whether the current event now has too many values."""
        self._pieces.append(piece)
        self._separators += _count_separators(piece)
        if self._separators > self._next_check:
            if has_too_many_values(b"".join(self._pieces), self._max_values):
                return True
            self._next_check = 2 * self._separators  # most separators are inside strings: do not check at each piece
        self._start_next_event(piece)
        return False

    def _start_next_event(self, piece: bytes) -> None:
        """A blank line ends an event. Only the bytes after the last one belong to the current event."""
        *ended_events, rest = _BLANK_LINE.split(self._last_bytes + piece)
        self._last_bytes = rest[-3:]
        if ended_events:
            self._pieces = [rest]
            self._separators = _count_separators(rest)
            self._next_check = self._max_values
