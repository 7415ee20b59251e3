"""Patience: how long a client may take over HTTP before its connection is closed.

The server underneath waits without end for a request that never comes, or comes a byte at a time, and for a client
that never reads.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MUCH = 1 << 16
"""Bytes that are not kept to the end of a turn."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is borne, in seconds and in numbers."""

    head: float = 10.0
    """For a request's head, from its first byte; and for that byte, from the connection."""
    body: float = 60.0
    """For its body."""
    unread: float = 60.0
    """For the client to take something of an answer."""
    linger: float = 2.0
    """For the rest of a body that was refused half way: closed at once, its sender would not see why."""
    keep_alive: float = 30.0
    """Between two requests of one connection."""
    connections: int = 512
    """That are open at one time; then those make room that have been idle for longest."""
    stopping: float = 1.0
    """For running requests to be answered, once the server is to end."""


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

    def close(self) -> None:
        """Close, once all is written."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Patient(H11Protocol):
    """The connection of one client, which ends if it takes too long."""

    def __init__(self, *args: Any, limits: Limits, open_ones: dict[Patient, None], **others: Any) -> None:
        super().__init__(*args, **others)
        self._limits, self._open = limits, open_ones
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_for = ""
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and give it some time to say something."""
        has_room = self._make_room()
        self._open[self] = None
        if (sock := transport.get_extra_info("socket")) is not None and sock.family != socket.AF_UNIX:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(Gathered(transport))  # type: ignore[arg-type]  # it is as good as one
        self._await("head", self._limits.head)
        if not has_room:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of it."""
        self._open.pop(self, None)
        self._await("", None)
        self._take_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See how far the request has come."""
        super().data_received(data)
        self._look()

    def _look(self) -> None:
        if self.transport.is_closing() or self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.ERROR):
            self._await("", None)
        elif self.conn.their_state is not h11.SEND_BODY:
            self._await("head", self._limits.head)
        elif self.cycle and not self.cycle.response_complete:
            self._await("body", self._limits.body)

    def on_response_complete(self) -> None:
        """Whoever has been served goes to the end of the line of those that make room."""
        if self in self._open:
            self._open[self] = self._open.pop(self)
        if self.conn.their_state is h11.SEND_BODY:
            self._await("rest", self._limits.linger)
        super().on_response_complete()  # which takes up the next request, if that has come already
        if self.cycle and not self.cycle.response_complete:
            self._look()

    def pause_writing(self) -> None:
        """It does not read what it asked for."""
        super().pause_writing()
        if self._unread is None:
            self._wait_for_reader()

    def resume_writing(self) -> None:
        """It does again."""
        self._take_up()
        super().resume_writing()

    @property
    def idle(self) -> bool:
        """Whether nobody waits for an answer: there is no request, or not the whole of it."""
        return not self.cycle or self.cycle.response_complete or self.conn.their_state is h11.SEND_BODY

    def _make_room(self) -> bool:
        """Whether there is room for one more, maybe because another one went."""
        if len(self._open) < self._limits.connections:
            return True
        oldest = next((each for each in self._open if each.idle), None)
        if oldest is not None:
            oldest._end()
            self._open.pop(oldest, None)
        return oldest is not None

    def _await(self, what: str, seconds: float | None) -> None:
        """Wait for this, so long; if that is what is waited for already, no longer than before."""
        if what == self._waiting_for:
            return
        self._waiting_for = what
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._end)

    def _wait_for_reader(self, before: int | None = None) -> None:
        """End the connection unless less waits to be read each time that this is looked at."""
        waiting = self.transport.get_write_buffer_size()
        if before is not None and waiting >= before:
            self._end()
        else:
            self._unread = self.loop.call_later(self._limits.unread, self._wait_for_reader, waiting)

    def _take_up(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _end(self) -> None:
        self.transport.abort()
