"""`LowLatencyStream`: the network stream of MCP connections, which make many small requests one after the other.

A fast path: `httpcore2`'s own stream goes through anyio, whose checkpoints and cancel scopes cost about a seventh of
the processor time of a small request. This one is an `asyncio.Protocol`, for asyncio and uvloop alike. Imported on
first use: `httpcore2` is an extra.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, cast

from httpcore2 import (
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    ReadError,
    ReadTimeout,
    TimeoutException,
    WriteError,
    WriteTimeout,
)

MAX_JOINED_BYTES = 64 * 1024
"""The head of a request is sent together with a body of at most this size. A larger one would only be copied."""
MAX_UNREAD_BYTES = 256 * 1024
"""With more unread bytes than that, no more are received until some have been read."""
_INFO_NAMES = {"client_addr": "sockname", "server_addr": "peername", "socket": "socket", "ssl_object": "ssl_object"}
"""What `httpcore2` asks for, and asyncio's name for it."""


async def connect_low_latency(address: str, port: int, timeout: float | None) -> LowLatencyStream:
    """Open a TCP connection to an address that has been checked; asyncio sets TCP_NODELAY on it."""
    try:
        async with asyncio.timeout(timeout):
            _, stream = await asyncio.get_running_loop().create_connection(LowLatencyStream, address, port)
    except TimeoutError as error:
        raise ConnectTimeout(str(error)) from error
    except OSError as error:
        raise ConnectError(str(error)) from error
    return stream


class LowLatencyStream(asyncio.Protocol, AsyncNetworkStream):
    """Joins the head of a request with its body, and acknowledges each piece of a response at once.

    Sent alone, the head wakes the server for nothing. And many servers write a response in two pieces without
    TCP_NODELAY: their kernel keeps the second until ours has acknowledged the first, which it would put off for 40 ms.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unsent_head = b""
        self._is_new_request = True
        """Whether the next write is the first of a request."""
        self._unread = bytearray()
        self._is_secure = False
        self._is_ended = False
        """Whether no more bytes will come."""
        self._is_lost = False
        self._error: Exception | None = None
        """Why the connection was lost, unless the server closed it in good order."""
        self._is_receiving_paused = False
        self._is_sending_paused = False
        self._read_waiter: asyncio.Future[bool] | None = None
        self._write_waiter: asyncio.Future[bool] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; nothing at the end of the stream."""
        if self._unsent_head:
            await self.write(b"", timeout)
        if not self._unread and not self._is_ended:
            if self._is_new_request:  # this is not the first piece of the response
                self._acknowledge()
            self._read_waiter = self._loop.create_future()
            await _wait_for_event(self._read_waiter, timeout, ReadTimeout)
        self._is_new_request = True
        if not self._unread and self._error is not None:
            raise ReadError(str(self._error)) from self._error
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_receiving_paused and len(self._unread) <= MAX_UNREAD_BYTES and not self._transport.is_closing():
            self._is_receiving_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write the bytes, the first of a request together with the next: `httpcore2` writes at least twice."""
        if self._is_new_request and buffer:
            self._is_new_request = False
            self._unsent_head = buffer
            return
        head = self._unsent_head
        self._unsent_head = b""
        if len(buffer) > MAX_JOINED_BYTES:
            await self._send(head, timeout)
            head = b""
        await self._send(head + buffer, timeout)

    async def _send(self, data: bytes, timeout: float | None) -> None:
        if not data:
            return
        if self._is_lost or self._transport.is_closing():
            raise WriteError(str(self._error or "The connection is closed.")) from self._error
        self._transport.write(data)
        if self._is_sending_paused:
            self._write_waiter = self._loop.create_future()
            await _wait_for_event(self._write_waiter, timeout, WriteTimeout)
            if self._is_lost:
                raise WriteError(str(self._error or "The connection is closed.")) from self._error

    async def aclose(self) -> None:
        """Close the connection."""
        self._end(ReadError("The connection was closed by this side."))
        self._transport.close()
        try:
            await asyncio.sleep(0)  # time to say goodbye, in TLS
        finally:
            self._transport.abort()  # `close` would wait until the server has taken all that was written

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        """Go on over TLS."""
        plain = self._transport
        self._is_secure = True
        try:
            if self._unread or self._is_ended:
                raise ConnectError("The server did not wait for the TLS handshake.") from self._error
            async with asyncio.timeout(timeout):
                secure = await self._loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
        except BaseException as error:
            plain.abort()
            if isinstance(error, TimeoutError):
                raise ConnectTimeout(str(error)) from error
            if isinstance(error, OSError):  # those of TLS too
                raise ConnectError(str(error)) from error
            raise
        # It may have been lost at the end of the handshake, or the server fills the buffer without being asked.
        if secure is None or self._is_receiving_paused:
            plain.abort()
            raise ConnectError("The server closed the connection, or sent too much, right after the TLS handshake.")
        self._transport = secure
        return self

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection."""
        if info == "is_readable":
            return bool(self._unread) or self._is_ended or _is_readable(self._transport.get_extra_info("socket"))
        name = _INFO_NAMES.get(info)
        return None if name is None else self._transport.get_extra_info(name)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop; with TLS, before it."""
        self._transport = cast(asyncio.Transport, transport)
        self._acknowledge = _acknowledger(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._unread += data
        if len(self._unread) > MAX_UNREAD_BYTES and not self._is_receiving_paused:
            self._is_receiving_paused = True
            self._transport.pause_reading()
        _wake(self._read_waiter)

    def eof_received(self) -> bool:
        """Called by the event loop. Whether the other direction stays open, which TLS does not have."""
        self._is_ended = True
        _wake(self._read_waiter)
        return not self._is_secure

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._end(exc)

    def pause_writing(self) -> None:
        """Called by the event loop when the server takes less than it is sent."""
        self._is_sending_paused = True

    def resume_writing(self) -> None:
        """Called by the event loop when the server has taken enough."""
        self._is_sending_paused = False
        _wake(self._write_waiter)

    def _end(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_ended = True
            self._is_lost = True
            self._error = error
            _wake(self._read_waiter)
            _wake(self._write_waiter)


async def _wait_for_event(
    event: asyncio.Future[bool], timeout: float | None, timeout_error: type[TimeoutException]
) -> None:
    """Wait without `asyncio.timeout`, which enters a scope and cancels the task: a timer that wakes it is less work."""
    # In an empty context: the event loop keeps a cancelled timer, and the context it was started in, until it is due.
    timer = None if timeout is None else event.get_loop().call_later(timeout, _wake, event, False, context=Context())
    try:
        if not await event:
            raise timeout_error
    finally:
        if timer is not None:
            timer.cancel()


def _wake(event: asyncio.Future[bool] | None, has_happened: bool = True) -> None:
    if event is not None and not event.done():
        event.set_result(has_happened)


def _is_readable(open_socket: Any) -> bool:
    """Whether the kernel holds bytes, or the end of the stream, that the event loop has not received yet."""
    number = -1 if open_socket is None else open_socket.fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _acknowledger(open_socket: Any) -> Callable[[], None]:
    """Has the kernel acknowledge at once what it has received. The option holds only until the next packets."""
    option: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux only
    if option is None or open_socket is None:
        return _do_nothing

    def acknowledge() -> None:
        with suppress(OSError):
            open_socket.setsockopt(socket.IPPROTO_TCP, option, 1)

    return acknowledge


def _do_nothing() -> None:
    pass
