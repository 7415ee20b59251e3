"""The connection of one HTTP client: its deadlines, and the limits of what it may send.

uvicorn and httptools parse HTTP, but uvicorn waits without end for a request that arrives a byte at a time and for a
client that does not read its response, and httptools has no limit for the size of a head. `ClientConnection` is the
protocol object that the event loop sees. It passes every event to uvicorn's own protocol object and adds the limits.
`request_monitor.RequestMonitor`, the outermost ASGI app, reports to it how far each request has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any, cast
from weakref import ReferenceType, ref

from surehand.core.clock import Deadline
from surehand.gateway.mcp.http.connection_table import ConnectionTable
from surehand.gateway.mcp.http.early_refusal import EarlyRefusal

MAX_BYTES_PARSED_AT_ONCE = 8 << 10
"""Bytes that are parsed in one iteration of the event loop. All requests that they contain are queued by uvicorn."""
MAX_UNPARSED_BYTES = 64 << 10
"""Bytes that are kept unparsed while a request is being answered; beyond it the socket is not read."""
MAX_CHUNK_FRAMING_BYTES = 256 << 10
"""Bytes of a chunked body that are not its content: sizes and extensions of chunks, and trailers."""
_HEAD_END = b"\r\n\r\n"
_HEAD_TAIL_BYTES = len(b"chunked") - 1
"""Bytes of a head that are remembered, so that a word that arrives in two parts is found."""

_current_connection: ContextVar[ReferenceType[ClientConnection] | None] = ContextVar("current_connection", default=None)
"""The connection that the running request arrived on. A weak reference: a cancelled timer of the event loop keeps the
context that it was started in until it would have been due."""


def current_connection() -> ClientConnection | None:
    """The connection that the running request arrived on."""
    reference = _current_connection.get()
    return None if reference is None else reference()


class ConnectionPhase(Enum):
    """The phase of the request that a connection is receiving or answering."""

    HEAD = auto()
    """No request runs: the next one is awaited, or its head is arriving."""
    STARTING = auto()
    """The head was parsed, and the task of the request has not yet had its first step."""
    BODY = auto()
    """A request runs, and its body has not all been received."""
    RESPONSE = auto()
    """A request was received as a whole, and is being answered."""


class ClientConnection(asyncio.Protocol):
    """One connection: uvicorn's protocol object with deadlines and limits around it."""

    def __init__(
        self,
        *,
        http_protocol: Callable[..., asyncio.Protocol],
        table: ConnectionTable,
        refusal: EarlyRefusal | None = None,
        **uvicorn_options: Any,
    ) -> None:
        self._uvicorn_protocol = http_protocol(**uvicorn_options)
        self._table = table
        self._limits = table.limits
        self._refusal = refusal
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.client_address = ""
        """The client's address; for IPv6 its /64 network, in which one client has any number of addresses."""
        # Requests start in this context, so none sees the context variables of another one or of the server.
        self.context = copy_context()
        self.context.run(_current_connection.set, ref(self))
        self._phase = ConnectionPhase.HEAD
        self._deadline: Deadline | None = None
        self._write_deadline: Deadline | None = None
        self._head_bytes = 0
        self._head_tail = b""
        """The last bytes of the head that were parsed."""
        self._may_be_chunked = False
        self._parsed_with_head = b""
        """The bytes that were parsed in the same iteration as the end of the head: the body, or its beginning."""
        self._body_bytes_left: int | None = None
        """Bytes of the body that were not parsed yet; None if it is chunked."""
        self._chunk_framing_bytes = 0
        self._unparsed = bytearray()
        self._is_parse_scheduled = False
        self._is_parsing = False
        self._is_reading_paused_by_uvicorn = False
        self._has_response_started = False
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the client waits for nothing: it has sent no request, or not the whole of one."""
        return self._phase is not ConnectionPhase.RESPONSE

    # Events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make room for the connection, and wait for the head of its first request."""
        self._transport = cast("asyncio.Transport", transport)
        self.client_address = _client_address(transport)
        has_room = self._table.add(self)
        self._uvicorn_protocol.connection_made(_ControlledTransport(self, self._transport))
        self._start_deadline(self._limits.head_timeout)
        if not has_room:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all deadlines."""
        self._table.remove(self)
        # Without the error: given one, uvicorn leaves its keep-alive timer, which then holds the connection in memory.
        self._uvicorn_protocol.connection_lost(None)
        self._clear_deadline()
        self._clear_write_deadline()
        self._unparsed.clear()
        if self._table.is_stopping and self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, unless a request is being answered: what follows it is parsed afterwards."""
        if self._refusal is not None and self._refusal.is_full() and self._refuse_early(data):
            return
        if not self._can_parse or self._unparsed or len(data) > MAX_BYTES_PARSED_AT_ONCE:
            self._unparsed += data
            self._update_reading()
            self._schedule_parse()
        else:
            self._parse(data)

    def _refuse_early(self, data: bytes) -> bool:
        """Refuse a request that has arrived whole, if nothing else is under way on the connection."""
        is_free = self._phase is ConnectionPhase.HEAD and not self._head_bytes and not self._unparsed
        if not is_free or len(data) > MAX_BYTES_PARSED_AT_ONCE or self._transport.get_write_buffer_size():
            return False
        assert self._refusal is not None
        response = self._refusal.response_to(data)
        if response is None:
            return False
        self._transport.write(response)
        self._clear_deadline()
        self._start_deadline(self._limits.keep_alive_timeout)
        return True

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self._uvicorn_protocol.eof_received()

    def pause_writing(self) -> None:
        """The client does not read its response as fast as it is written."""
        self._uvicorn_protocol.pause_writing()
        if self._write_deadline is None:
            self._start_write_deadline(None)

    def resume_writing(self) -> None:
        """The client has caught up. A connection that is being closed stays open until it has read all."""
        if not self._transport.is_closing():
            self._clear_write_deadline()
        self._uvicorn_protocol.resume_writing()

    # Parsing

    @property
    def _can_parse(self) -> bool:
        """Whether the next bytes belong to the request that is arriving, and not to a later one."""
        return self._phase is ConnectionPhase.HEAD or (
            self._phase is ConnectionPhase.BODY and self._body_bytes_left != 0
        )

    def _parse(self, data: bytes) -> None:
        """Parse the part of the data that belongs to the head or the body that is arriving; keep the rest.

        uvicorn would queue any number of requests that a client sends at once, and it adds the trailers of a chunked
        body to the headers of its request, where they cannot be told apart if both are parsed in one iteration.
        """
        if self._phase is ConnectionPhase.HEAD:
            if self._deadline is None:
                self._start_deadline(self._limits.head_timeout)
            data = self._take_head(data)
        elif self._body_bytes_left is None:
            self._chunk_framing_bytes += len(data)
        else:
            data = self._keep_after(data, self._body_bytes_left)
            self._body_bytes_left -= len(data)
        if self._head_bytes > self._limits.max_head_bytes or self._chunk_framing_bytes > MAX_CHUNK_FRAMING_BYTES:
            self.abort()
            return
        self._is_parsing = True
        try:
            self.context.run(self._uvicorn_protocol.data_received, data)
        finally:
            self._is_parsing = False
        if self._phase is ConnectionPhase.STARTING:
            self._loop.call_soon(self._check_request_started)  # after the first step of the request's task
        self._schedule_parse()

    def _take_head(self, data: bytes) -> bytes:
        """The data up to the end of the head, together with a body that cannot contain anything but a body."""
        if not self._head_bytes:
            data = data.lstrip(b"\r\n")  # blank lines before a request are ignored
        seen = self._head_tail + data
        end = seen.find(_HEAD_END)
        head = seen if end < 0 else seen[: end + len(_HEAD_END)]
        self._may_be_chunked = self._may_be_chunked or b"chunked" in head.lower()
        self._head_bytes += len(head) - len(self._head_tail)
        if end < 0:
            self._head_tail = head[-_HEAD_TAIL_BYTES:]
            return data
        self._phase = ConnectionPhase.STARTING
        rest = seen[len(head) :]
        if self._may_be_chunked or _HEAD_END in rest:
            return self._keep_after(data, len(data) - len(rest))
        self._parsed_with_head = rest
        return data

    def _keep_after(self, data: bytes, end: int) -> bytes:
        self._unparsed[:0] = data[end:]
        return data[:end]

    def _check_request_started(self) -> None:
        """A head that started no request is not the head of one: the parser decides about what follows."""
        if self._phase is ConnectionPhase.STARTING:
            self._phase = ConnectionPhase.HEAD
            self._schedule_parse()

    def _schedule_parse(self) -> None:
        if self._unparsed and not self._is_parse_scheduled and self._can_parse:
            self._is_parse_scheduled = True
            self._loop.call_soon(self._parse_next)

    def _parse_next(self) -> None:
        # One part for each iteration of the loop, so that a client that sends a lot does not keep others waiting.
        self._is_parse_scheduled = False
        if not self._can_parse or self._is_reading_paused_by_uvicorn or self._transport.is_closing():
            return
        part = bytes(self._unparsed[:MAX_BYTES_PARSED_AT_ONCE])
        del self._unparsed[:MAX_BYTES_PARSED_AT_ONCE]
        if part:
            self._parse(part)
        self._update_reading()

    # Flow control, for uvicorn

    def pause_reading(self) -> None:
        """uvicorn has as much as it takes for now."""
        self._is_reading_paused_by_uvicorn = True
        self._update_reading()

    def resume_reading(self) -> None:
        """uvicorn takes more."""
        self._is_reading_paused_by_uvicorn = False
        self._update_reading()
        self._schedule_parse()

    def _update_reading(self) -> None:
        if self._transport.is_closing():
            return
        if self._is_reading_paused_by_uvicorn or len(self._unparsed) > MAX_UNPARSED_BYTES:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def must_not_write(self) -> bool:
        """Whether uvicorn is about to write an error about later data into the response of a request that runs."""
        return self._is_parsing and self._has_response_started

    # Events of a request, as the app sees it

    def begin_request(self, *, body_bytes: int | None) -> None:
        """The head of a request was received and its task runs. The body has this many bytes; None if it is chunked."""
        parsed = self._parsed_with_head
        body = len(parsed) if body_bytes is None else min(len(parsed), body_bytes)
        self._phase = ConnectionPhase.RESPONSE if body_bytes == 0 else ConnectionPhase.BODY
        self._body_bytes_left = None if body_bytes is None else body_bytes - body
        self._chunk_framing_bytes = 0
        self._parsed_with_head = b""
        # What was parsed beyond the body is the beginning of the next head, of which nothing else is known.
        next_head = parsed[body:]
        self._head_bytes = len(next_head)
        self._head_tail = next_head[-_HEAD_TAIL_BYTES:]
        self._may_be_chunked = bool(next_head)
        self._has_response_started = False
        self._task = asyncio.current_task()
        self._clear_deadline()
        self._schedule_parse()

    def body_received(self, size: int) -> None:
        """The app has received a part of the body."""
        self._chunk_framing_bytes = max(self._chunk_framing_bytes - size, 0)

    def await_body(self) -> None:
        """The app waits for the body. However often it does, the time is counted from the first."""
        if self._deadline is None and not self._transport.is_closing():
            self._start_deadline(self._limits.body_timeout)

    def await_refused_body(self) -> None:
        """The response was sent, and the rest of the body is dropped."""
        self._clear_deadline()
        if not self._transport.is_closing():
            self._start_deadline(self._limits.linger_timeout)

    def body_complete(self) -> None:
        """The app has received the last part of the body."""
        self._phase = ConnectionPhase.RESPONSE
        self._clear_deadline()

    def response_started(self) -> None:
        """The head of the response is written."""
        self._has_response_started = True

    def end_request(self) -> None:
        """The request was answered. What was received after it is parsed now."""
        self._phase = ConnectionPhase.HEAD
        self._task = None
        self._has_response_started = False
        self._clear_deadline()
        self._table.mark_used(self)
        self._schedule_parse()

    # Deadlines

    def _start_deadline(self, seconds: float) -> None:
        self._deadline = self._table.deadlines.start(seconds, self.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_write_deadline(self, unread_bytes: int | None) -> None:
        """Close the connection unless fewer bytes wait for the client each time."""
        remaining = self._transport.get_write_buffer_size()
        if unread_bytes is not None and remaining >= unread_bytes:
            self.abort()
        else:
            check = partial(self._start_write_deadline, remaining)
            self._write_deadline = self._table.deadlines.start(self._limits.write_timeout, check)

    def _clear_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def close(self) -> None:
        """Close the connection once the client has read what was written, for which it has the usual time."""
        self._transport.close()
        if self._write_deadline is None and self._transport.get_write_buffer_size():
            self._start_write_deadline(None)

    def abort(self) -> None:
        """Close the connection now."""
        self._transport.abort()


class _ControlledTransport(asyncio.Transport):
    """The transport that uvicorn sees. The connection decides about reading, for it may have more to parse."""

    def __init__(self, connection: ClientConnection, transport: asyncio.Transport) -> None:
        super().__init__()
        self._connection = connection
        self._transport = transport

    def write(self, data: Any) -> None:
        if not self._connection.must_not_write:
            self._transport.write(data)

    def pause_reading(self) -> None:
        self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._connection.resume_reading()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


def copy_connection_context(connection: ClientConnection) -> Context:
    """A context for one more request of a connection."""
    return connection.context.copy()


def _client_address(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or not peer:
        return ""
    try:
        address = ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    return address.exploded[:19] if isinstance(address, IPv6Address) else str(address)
