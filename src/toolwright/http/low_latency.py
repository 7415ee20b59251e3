"""Low-latency stream: a request leaves in one packet, and a response that arrives in pieces is not held up.

Used for MCP connections, which make many small requests one after the other. Imported on first use: `httpcore2` is an
extra.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from httpcore2 import AsyncNetworkStream

MAX_JOINED_BYTES = 64 * 1024
"""The head of a request is sent together with a body of at most this size. A larger one would only be copied."""


class LowLatencyStream(AsyncNetworkStream):
    """Joins the head of a request with its body, and acknowledges each piece of a response at once.

    Sent alone, the head wakes the server for nothing. And many servers write a response in two pieces without
    TCP_NODELAY: their kernel keeps the second until ours has acknowledged the first, which it would put off for 40 ms.
    """

    def __init__(self, stream: AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = b""
        self._is_new_request = True
        """Whether the next write is the first of a request."""
        self._acknowledge = _acknowledger(stream.get_extra_info("socket"))

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; nothing at the end of the stream."""
        if self._head:
            await self.write(b"", timeout)
        if self._is_new_request:  # this is not the first piece of the response
            self._acknowledge()
        self._is_new_request = True
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write the bytes, the first of a request together with the next: `httpcore2` writes at least twice."""
        if self._is_new_request and buffer:
            self._is_new_request = False
            self._head = buffer
            return
        head = self._head
        self._head = b""
        if len(buffer) > MAX_JOINED_BYTES:
            await self._stream.write(head, timeout)
            head = b""
        if head or buffer:
            await self._stream.write(head + buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        """The same over TLS."""
        return LowLatencyStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection."""
        return self._stream.get_extra_info(info)


def _acknowledger(opened: Any) -> Callable[[], None]:
    """Has the kernel acknowledge at once what it has received. The option holds only until the next packets."""
    option: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux only
    if option is None or opened is None:
        return _do_nothing

    def acknowledge() -> None:
        with suppress(OSError):
            opened.setsockopt(socket.IPPROTO_TCP, option, 1)

    return acknowledge


def _do_nothing() -> None:
    pass
