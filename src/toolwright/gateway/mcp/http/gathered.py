"""Gathered: what is said over HTTP in one turn of the loop leaves at once."""

from __future__ import annotations

import asyncio
from typing import Any

MUCH = 1 << 16
"""Bytes that are not kept to the end of a turn."""


class Gathered:
    """A transport that writes what is said in one turn of the loop at once: head and body of an answer, say.

    In two packets, the second may wait a twentieth of a second for the first to be acknowledged.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._parts, self._size = transport, list[bytes](), 0
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Write it at the end of this turn, or as soon as it is much."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > MUCH:
            self.flush()

    def flush(self) -> None:
        """Write it now."""
        if self._parts:
            parts, self._parts, self._size = self._parts, [], 0
            self._transport.write(b"".join(parts))

    def write_at_once(self, data: bytes) -> None:
        """Write it now, after what was said before."""
        if self._parts:
            self.flush()
        self._transport.write(data)

    def close(self) -> None:
        """Close, once all is written."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
