"""Patience: how long a client may take over HTTP before its connection is closed.

The server underneath waits without end for a request that never comes, or comes a byte at a time, and for a client
that never reads.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolwright.core.clock import Deadline, Deadlines
from toolwright.gateway.mcp.http.gathered import Gathered
from toolwright.gateway.mcp.http.plain import Head, Plain, head_of, size_of_head

PIECE = 0.02
"""Seconds in which the body of a plain request follows its head; one that does not is refused or awaited as any."""


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


class Patient(H11Protocol):
    """The connection of one client, which ends if it takes too long."""

    def __init__(
        self, *args: Any, limits: Limits, open_ones: dict[Patient, None], moments: Deadlines, **others: Any
    ) -> None:
        super().__init__(*args, **others)
        self._limits, self._open, self._moments = limits, open_ones, moments
        self._timer: Deadline | None = None
        self._waiting_for = ""
        self._unread: asyncio.TimerHandle | None = None
        self._plain: Plain | None = None
        self._is_free = True
        """Whether the library has read, and answered, all that it was given."""
        self._come = b""
        self._head: tuple[bytes, Head | None] = b"", None
        self._rested = 0.0

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
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """See how far the request has come."""
        if self._plain is not None:  # the next one, before this one is answered
            self._tell()
        if not self._is_free or not self._is_taken(self._come + data):
            self._read(data)

    # Plain requests

    def _is_taken(self, come: bytes) -> bool:
        """Whether it is a plain request, or the beginning of one."""
        size = size_of_head(come)
        if not size or (head := self._said(come[:size])) is None or len(come) > size + head.length:
            return False
        if len(come) < size + head.length:
            self._come = come
            self._await("piece", PIECE, self._read)
            return True
        self._come = b""
        self._await("", None)
        self.cycle = self._plain = plain = Plain(self, come, head, self._answered)
        self.tasks.add(self.loop.create_task(plain.run_asgi(self.app), context=Context()))
        return True

    def _said(self, head: bytes) -> Head | None:
        """What a head says; most clients say the same again."""
        if head != self._head[0]:
            self._head = head, head_of(head)
        return self._head[1]

    def _answered(self) -> None:
        self._plain = None
        self.server_state.total_requests += 1
        self._rest()
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self._keep(self.timeout_keep_alive)

    def _tell(self) -> None:
        """There is more to it than there seemed to be."""
        plain, self._plain, self._is_free = self._plain, None, False
        if plain is not None:
            plain.tell()

    def _read(self, data: bytes = b"") -> None:
        """Have the library read what comes."""
        come, self._come, self._is_free = self._come + data, b"", False
        super().data_received(come)
        self._look()

    def _look(self) -> None:
        if self.transport.is_closing() or self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.ERROR):
            self._await("", None)
        elif self.conn.their_state is not h11.SEND_BODY:
            self._await("head", self._limits.head)
        elif self.cycle and not self.cycle.response_complete:
            self._await("body", self._limits.body)

    def on_response_complete(self) -> None:
        """What the library has answered."""
        self._plain = None
        self._rest()
        if self.conn.their_state is h11.SEND_BODY:
            self._await("rest", self._limits.linger)
        super().on_response_complete()  # which takes up the next request, if that has come already
        if self.cycle and not self.cycle.response_complete:
            self._look()
        else:
            states = self.conn.states.values()
            self._is_free = set(states) == {h11.IDLE} and self.conn.trailing_data == (b"", False)

    def send_400_response(self, msg: str) -> None:
        """What comes is no request: say so where no answer has begun, and let nobody go on with one."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _rest(self) -> None:
        """Whoever has been served goes to the end of the line of those that make room."""
        self._rested = self.loop.time()
        if self in self._open:
            self._open[self] = self._open.pop(self)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more has come, unless it was looked for too early: plain requests do not set the clock anew."""
        left = self._rested + self.timeout_keep_alive - self.loop.time()
        if self._come or not self.idle:
            left = self.timeout_keep_alive
        if left > 0.001 and not self.transport.is_closing():
            self._keep(left)
        else:
            super().timeout_keep_alive_handler()

    def _keep(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def shutdown(self) -> None:
        """End, once what runs is answered."""
        if self._come:
            self._read()
        super().shutdown()

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

    def _await(self, what: str, seconds: float | None, otherwise: Callable[[], None] | None = None) -> None:
        """Wait for this, so long, and then end; if that is what is waited for already, no longer than before."""
        if what == self._waiting_for:
            return
        self._waiting_for = what
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._moments.start(seconds, otherwise or self._end)

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
