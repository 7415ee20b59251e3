"""Limits what a server may send before its response: HTTP allows any number of informational responses (1xx) there.

`transport.py` enters the limit while it waits for the head of a response, and the network stream under `httpcore2`
counts what it reads meanwhile. `httpcore2` skips informational responses without a limit, and parses all that one read
has given at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from surehand.core.errors import ToolError

MAX_READ_BYTES = 4096
"""Bytes that are read at once: h11 takes about ten milliseconds for as many bytes of the shortest responses."""


class HeadLimit:
    """The bytes that may be read until the head of one response is complete."""

    def __init__(self, host: str, max_bytes: int) -> None:
        self._host = host
        self._max_bytes = max_bytes
        # The last read may have the beginning of the body in it.
        self._bytes_left = max_bytes + MAX_READ_BYTES
        self._is_first = True

    async def count(self, size: int) -> None:
        """Count a read. Raises if it was one too many; otherwise lets other tasks run before the next."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise ToolError(f"{self._host} answered with more than {self._max_bytes} bytes of headers.")
        # A read of bytes that have arrived already does not suspend its task. Most heads come with the first read.
        if not self._is_first:
            await asyncio.sleep(0)
        self._is_first = False


# A context variable, because the pool of `httpcore2` chooses the connection, and so the stream, that a request uses.
_current_limit: ContextVar[HeadLimit | None] = ContextVar("http_head_limit", default=None)


def current_head_limit() -> HeadLimit | None:
    """The limit of the request that this task waits for; None once the head of its response is there."""
    return _current_limit.get()


@contextmanager
def head_limit(host: str, max_bytes: int) -> Iterator[None]:
    """Limit the reads of the current task within the block."""
    token = _current_limit.set(HeadLimit(host, max_bytes))
    try:
        yield
    finally:
        _current_limit.reset(token)
