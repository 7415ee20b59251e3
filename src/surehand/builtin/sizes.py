"""Numbers of bytes, written for people."""

from __future__ import annotations


def format_byte_count(byte_count: int) -> str:
    """A number of bytes, as people write it."""
    return "1 byte" if byte_count == 1 else f"{byte_count:,} bytes"
