"""Detects that a server sent more bytes than its response, so that the connection is not used again.

Such surplus bytes would be read as the response to the next request on the connection, which may belong to another
user (response smuggling). Used for every connection of `transport.py`. Imported on first use: `httpcore2` is an extra.

How it works. h11, the parser inside `httpcore2`, asks the network stream for more bytes only while a response is
incomplete, and keeps whatever follows the response to itself. `SurplusDetectingStream` therefore never hands out the
last byte that it has received together with the bytes before it: that byte is handed out alone, by the next `read`.

- If h11 asks for it, the response needed it, and the response ends at that byte or later.
- If the response ends while a byte is still held back, the server has sent at least that byte too many.

A held byte is reported as `is_readable`. `httpcore2` asks for `is_readable` before it keeps or reuses an idle
connection: bytes on an idle connection are either surplus or its end, so it closes the connection.

One case is not seen: anyio passes at most 64 KiB of a received TLS piece on to be decrypted and queues the rest, so a
server that aligns its TLS records with that limit can hide a record there. A server can only deceive its own clients
that way.
"""

from __future__ import annotations

import ssl
from typing import Any

from httpcore2 import AsyncNetworkStream

from surehand.http.head_limit import MAX_READ_BYTES, current_head_limit

MAX_RECEIVE_BYTES = 256 * 1024
"""As much as asyncio receives at once. anyio would queue the rest of a larger piece, where we could not see it."""
FULL_BUFFER_BYTES = 250_000
"""uvloop's receive buffer: after a read that fills it, uvloop may have received, and anyio queued, another piece."""
MAX_TLS_RECEIVE_BYTES = 64 * 1024
"""More than one TLS record, and records are decrypted one by one."""


class SurplusDetectingStream(AsyncNetworkStream):
    """A network stream that holds back the last byte it has received until that byte is asked for."""

    def __init__(self, stream: AsyncNetworkStream) -> None:
        self._stream = stream
        self._tls: ssl.SSLObject | None = stream.get_extra_info("ssl_object")
        self._max_receive = MAX_RECEIVE_BYTES if self._tls is None else MAX_TLS_RECEIVE_BYTES
        self._unread = b""
        self._may_have_queued = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes, but the last received byte only alone; nothing at the end of the stream."""
        limit = current_head_limit()
        if limit is None:
            return await self._read(max_bytes, timeout)
        data = await self._read(min(max_bytes, MAX_READ_BYTES), timeout)
        await limit.count(len(data))
        return data

    async def _read(self, max_bytes: int, timeout: float | None) -> bytes:
        if not self._unread:
            received = await self._stream.read(self._max_receive, timeout)
            self._may_have_queued = len(received) >= FULL_BUFFER_BYTES
            # A single byte is handed out at once: the parser asks only for bytes that the response needs.
            if len(received) <= 1:
                return received
            self._unread = received
        end = min(max_bytes, max(len(self._unread) - 1, 1))
        data = self._unread[:end]
        self._unread = self._unread[end:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write the bytes as they are."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        """Start TLS; inside it, decrypted bytes are held back in the same way."""
        return SurplusDetectingStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Answer `is_readable` for held bytes too; all else is for the wrapped stream to answer."""
        if info == "is_readable" and self._has_received_more():
            return True
        return self._stream.get_extra_info(info)

    def _has_received_more(self) -> bool:
        """Whether received bytes were not read; asked only while the connection is idle."""
        return bool(self._unread) or self._may_have_queued or (self._tls is not None and _has_more_records(self._tls))


def _has_more_records(tls: ssl.SSLObject) -> bool:
    """Whether another TLS record was received than those that were read.

    Its bytes have left the socket, which therefore does not look readable. There is no way to peek, but a byte that is
    lost here does no harm: the connection is closed. `SSLObject` never blocks. A record of which only a part has come,
    or none that carries data (a session ticket), counts as nothing.
    """
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:  # the server has closed its side, or sent something that is not TLS
        return True
    return True
