"""Plain: a request over HTTP as nearly all are, read and answered in one piece; all others are the library's to read.

It takes no state machine to see that a head of simple lines is followed by as many bytes as it says. Where there turns
out to be more to a request, or to its answer, the library is told of it from the first byte on, and goes on from there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from toolwright.gateway.mcp.http.gathered import Gathered

Headers: TypeAlias = list[tuple[bytes, bytes]]

LONGEST = 1 << 16
"""Bytes of a body: so many the library takes, too, before anybody has asked for them."""
_LONG = 8 * 1024
_FIELDS = rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?\r\n)+"
_ASKED = re.compile(rb"POST (/[0-9A-Za-z_./-]*) HTTP/1\.1\r\n(%b)\r\n" % _FIELDS)
_TOLD = re.compile(_FIELDS)
_LENGTH = re.compile(rb"[0-9]{1,10}")
_MORE = frozenset({b"transfer-encoding", b"upgrade", b"expect", b"trailer"})
_STATUSES = (200, 202)


class Head(NamedTuple):
    """What stands before a body."""

    path: bytes
    headers: Headers
    length: int
    """Of the body."""


def size_of_head(data: bytes) -> int:
    """How long the head is that a request begins with; 0 if it has not all come, or is long."""
    found = data.find(b"\r\n\r\n", 0, _LONG)
    return found + 4 if found > 0 else 0


def head_of(data: bytes) -> Head | None:
    """What a head says, if that is plain."""
    if (found := _ASKED.fullmatch(data)) is None:
        return None
    pairs = (line.partition(b": ") for line in found[2].split(b"\r\n")[:-1])
    headers = [(name.lower(), value) for name, _, value in pairs]
    length = _length(headers) if any(name == b"host" for name, _ in headers) else None
    return None if length is None or length > LONGEST else Head(found[1], headers, length)


def _length(headers: Headers) -> int | None:
    """How long a body is; None if that is not plain."""
    known = dict(headers)
    if len(known) != len(headers) or not _MORE.isdisjoint(known):
        return None
    said = known.get(b"content-length", b"")
    keeps = known.get(b"connection", b"keep-alive") == b"keep-alive"
    return int(said) if keeps and _LENGTH.fullmatch(said) else None


class Plain(RequestResponseCycle):
    """One such request, and its answer: plain, too, if it says its length, and comes at once."""

    def __init__(self, protocol: H11Protocol, data: bytes, head: Head, over: Callable[[], None]) -> None:
        super().__init__(
            scope=_scope(protocol, head),  # type: ignore[arg-type]  # a dict as any
            conn=protocol.conn,
            transport=protocol.transport,
            flow=protocol.flow,
            logger=protocol.logger,
            access_logger=protocol.access_logger,
            access_log=protocol.access_log,
            default_headers=protocol.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=protocol.on_response_complete,
        )
        self._data, self._over, self._tasks = data, over, protocol.tasks
        self._write = cast("Gathered", protocol.transport).write_at_once
        self._start: Any = None
        self._length: int | None = None
        self._is_known = False
        self._unread: bytes | None = data[len(data) - head.length :]
        self.more_body = False

    async def run_asgi(self, app: Any) -> None:
        """Serve it."""
        try:
            await super().run_asgi(app)
        finally:
            self._tasks.discard(asyncio.current_task())

    async def receive(self) -> Any:
        """The body, which has come; after that, that the client has left."""
        if self._unread is None:
            return await super().receive()
        body, self._unread = self._unread, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Answer. The head waits for the body where there is one that is said to be whole."""
        if self.disconnected:
            return
        if self.response_complete:
            await super().send(message)  # which raises
        elif self._is_known or self.flow.write_paused or not self.keep_alive:
            await self._send_known(message)
        elif not self.response_started and self._is_plain(message):
            self._start, self.response_started = message, True
        elif self._start is None or message.get("more_body") or not self._say(message.get("body", b"")):
            await self._send_known(message)

    def _is_plain(self, start: Any) -> bool:
        """Whether it says how long the answer is, and no more than that."""
        if start["type"] == "http.response.start" and start["status"] in _STATUSES:
            self._length = _length(start["headers"])
        return self._length is not None

    def _say(self, body: bytes) -> bool:
        """Whether head and body were plain, and are sent."""
        fields = b"".join([b"%b: %b\r\n" % each for each in (*self.default_headers, *self._start["headers"])])
        if self._length != len(body) or not self._is_sound(fields):
            return False
        status = self._start["status"]
        self.response_complete = True
        self.message_event.set()
        self._write(b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, STATUS_PHRASES[status], fields, body))
        self._data = b""  # the connection knows its last request for as long as it is idle
        self._over()
        return True

    def _is_sound(self, fields: bytes) -> bool:
        """Whether each header is a plain line of its own, and no more than one."""
        count = len(self.default_headers) + len(self._start["headers"])
        return fields.count(b"\n") == count and _TOLD.fullmatch(fields) is not None

    async def _send_known(self, message: Any) -> None:
        """The library says it."""
        self.tell()
        start, self._start = self._start, None
        if start is not None:
            self.response_started = False
            await super().send(start)
        await super().send(message)

    def tell(self) -> None:
        """Have the library know of the request, as if it had read it."""
        if not self._is_known:
            self._is_known = True
            self.conn.receive_data(self._data)
            self._data = b""
            while not isinstance(self.conn.next_event(), h11.EndOfMessage):
                pass


def _scope(protocol: H11Protocol, head: Head) -> dict[str, Any]:
    """As the library makes it."""
    root = protocol.root_path
    return {
        "type": "http",
        "asgi": {"version": protocol.asgi_version, "spec_version": "2.3"},
        "http_version": "1.1",
        "server": protocol.server,
        "client": protocol.client,
        "scheme": protocol.scheme,
        "method": "POST",
        "root_path": root,
        "path": root + head.path.decode(),
        "raw_path": root.encode() + head.path,
        "query_string": b"",
        "headers": [*head.headers],
        "state": protocol.app_state.copy(),
    }
