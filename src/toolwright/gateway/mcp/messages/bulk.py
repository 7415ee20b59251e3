"""Bulk: how many values a message has, told before it is read: four megabytes of brackets take seconds to read."""

from __future__ import annotations

MOST_VALUES = 50_000
"""Values of one message, about; a text counts as one, however long it is."""
EACH = 128
"""Bytes that a value takes once it is read, about."""
_SMALL = MOST_VALUES


def too_bulky(data: bytes) -> bool:
    """Whether a message has more values than are read."""
    if len(data) <= _SMALL or _marks(data) <= MOST_VALUES:
        return False
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * MOST_VALUES:  # a key and a text for each value
        return True
    # Roughly what is outside of texts: what is no JSON is not read either.
    return _marks(b"".join(bare.split(b'"')[::2])) > MOST_VALUES


def weight(data: bytes) -> int:
    """Bytes that a message takes as long as it is at work, about."""
    return len(data) + EACH * min(_marks(data), MOST_VALUES)


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
