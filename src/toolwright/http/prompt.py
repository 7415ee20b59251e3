"""Prompt: a connection that is used again and again, and on which neither side waits for the other's kernel.

Imported on first use: `httpcore2` is an extra.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from httpcore2 import (
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    ReadError,
    ReadTimeout,
    WriteError,
    WriteTimeout,
)

from toolwright.http.keepalive import keep_alive

FRESH = 3.0
"""Seconds of quiet after which it is not used again: many servers close theirs after five, without a word."""
HELD = 1 << 18
"""Bytes that have come and were not read, from which on no more are taken."""
_QUICKLY: int | None = getattr(socket, "TCP_QUICKACK", None)
_ASKED = {"socket": "socket", "ssl_object": "ssl_object", "client_addr": "sockname", "server_addr": "peername"}


async def prompt(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open such a connection to an address that has been judged."""
    with _as(ConnectTimeout, ConnectError):
        async with asyncio.timeout(timeout):
            _, ends = await asyncio.get_running_loop().create_connection(_Ends, address, port)
    keep_alive(ends.transport.get_extra_info("socket"))
    return Prompt(ends)


class Prompt(AsyncNetworkStream):
    """Sends the head of a request together with its body, and confirms at once what has come.

    Many servers send an answer in two pieces, and their kernel keeps the second until the first is confirmed; ours
    would take 40 ms over that on any connection that is used a second time.
    """

    def __init__(self, ends: _Ends) -> None:
        self._ends = ends
        self._socket: Any = ends.transport.get_extra_info("socket")
        self._head = b""
        self._begins = True
        self._asked: Callable[[], bool] | None = None
        ends.last = monotonic()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come; nothing, once nothing more will."""
        if self._head:
            await self.write(b"", timeout)
        if not self._ends.stirred:
            await self._wait(timeout)
        self._begins = True
        with _as(ReadTimeout, ReadError):
            return self._ends.take(max_bytes)

    async def _wait(self, timeout: float | None) -> None:
        """For more, where it is not the first piece of an answer."""
        if self._begins:
            self.confirm()
        with _as(ReadTimeout, ReadError):
            async with asyncio.timeout(timeout):
                await self._ends.more()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """The first piece of a request waits for the next one: most have a body, and an empty piece at their end."""
        if self._begins and buffer:
            self._head, self._begins = buffer, False
            return
        data, self._head = self._head + buffer, b""
        with _as(WriteTimeout, WriteError):
            if data and not self._ends.put(data):
                async with asyncio.timeout(timeout):
                    await self._ends.room()

    async def aclose(self) -> None:
        """Close it at once."""
        self._ends.transport.abort()
        await asyncio.sleep(0)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        """The same, in secret."""
        loop, ends = asyncio.get_running_loop(), self._ends
        try:
            with _as(ConnectTimeout, ConnectError):
                async with asyncio.timeout(timeout):
                    made = await loop.start_tls(ends.transport, ends, ssl_context, server_hostname=server_hostname)
            assert made is not None
        except BaseException:
            ends.transport.abort()
            raise
        ends.transport = made
        return Prompt(ends)

    # For whoever hears of what comes, and waits in no task for it

    def attend(self, heard: Callable[[bytes], None] | None) -> None:
        """Have somebody given what comes; nothing, once nothing more will."""
        self._ends.heard = heard

    def put(self, data: bytes) -> None:
        """Send at once, or as soon as it can be; raises `OSError` where nobody takes it."""
        self._ends.put(data)

    def confirm(self) -> None:
        """Confirm at once what has come."""
        if _QUICKLY is not None:
            with suppress(OSError, TypeError):  # not every event loop gives the socket away
                self._socket.setsockopt(socket.IPPROTO_TCP, _QUICKLY, 1)

    def abort(self) -> None:
        """Close it at once."""
        self._ends.heard = None
        self._ends.transport.abort()

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self._ends.over

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come that nobody waited for, as far as the event loop has heard."""
        return not self._ends.stirred and not self._ends.transport.is_closing()

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent: asks the kernel, too, of which the event loop may not have heard yet."""
        is_fresh = monotonic() - self._ends.last <= FRESH
        return is_fresh and self.is_quiet and not self._has_come()

    def _has_come(self) -> bool:
        """Whether there is something to be read, be it the end."""
        try:
            if self._asked is None:
                self._asked = _asking(self._socket.fileno())
            return self._asked()
        except (OSError, ValueError):  # it is closed
            return True

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection beneath."""
        if info == "is_readable":  # so a pool asks whether it can be used again
            return monotonic() - self._ends.last > FRESH or self._ends.stirred
        return self._ends.transport.get_extra_info(_ASKED[info]) if info in _ASKED else None


class _Ends(asyncio.Protocol):
    """Both ends of a connection: what has come and was not read, and whether more can be sent."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.heard: Callable[[bytes], None] | None = None
        self.over = False
        """Whether nothing more will come."""
        self.last = 0.0
        """When something came."""
        self._come: deque[bytes] = deque()
        self._held = 0
        self._error: Exception | None = None
        self._more = _Signal()
        self._room = _Signal()
        self._full = False

    @property
    def stirred(self) -> bool:
        """Whether something has come that nobody waited for, be it the end."""
        return bool(self._come) or self.over

    def take(self, most: int) -> bytes:
        """The first of what has come, or nothing."""
        if not self._come:
            if self._error is not None:
                raise self._error
            return b""
        data = self._come.popleft()
        if len(data) > most:
            self._come.appendleft(data[most:])
            data = data[:most]
        self._count(-len(data))
        return data

    def _take_all(self) -> bytes:
        data = b"".join(self._come)
        self._come.clear()
        self._count(-len(data))
        return data

    async def more(self) -> None:
        """Wait for more, or for the end."""
        while not self.stirred:
            await self._more.wait()

    def put(self, data: bytes) -> bool:
        """Send; whether there is room for more."""
        if self.over or self.transport.is_closing():
            raise self._error or BrokenPipeError("The other side has closed the connection.")
        self.transport.write(data)
        return not self._full

    async def room(self) -> None:
        """Wait for room."""
        while self._full and not self.over:
            await self._room.wait()

    def _count(self, change: int) -> None:
        before, self._held = self._held, self._held + change
        if before <= HELD < self._held:
            self.transport.pause_reading()
        elif self._held <= HELD < before and not self.over:
            self.transport.resume_reading()

    # For the event loop

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.last = monotonic()
        if self.heard is not None and not self._come:
            self.heard(data)
            return
        self._come.append(data)
        self._count(len(data))
        self._stir()

    def eof_received(self) -> None:
        self.over = True
        self._stir()

    def connection_lost(self, error: Exception | None) -> None:
        self.over, self._error = True, self._error or error
        self._stir()
        self._room.set()

    def _stir(self) -> None:
        if self.heard is not None:
            self.heard(self._take_all())
        else:
            self._more.set()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._room.set()


def _asking(number: int) -> Callable[[], bool]:
    """Asks the kernel whether there is something to be read from a socket, by its number."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda: bool(poll.poll(0))


class _Signal:
    """Wakes the one who waits."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def set(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


@contextmanager
def _as(late: type[Exception], otherwise: type[Exception]) -> Iterator[None]:
    """Errors in the words of `httpcore2`."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (OSError, EOFError, RuntimeError) as error:
        raise otherwise(str(error)) from error
