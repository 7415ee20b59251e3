"""Numbers of bytes, written for people."""

from __future__ import annotations


def size(number: int) -> str:
    """A number of bytes, as people write it."""
    return "1 byte" if number == 1 else f"{number:,} bytes"
