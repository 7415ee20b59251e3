"""Wire: the messages of one connection, as the library's session reads and writes them.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, Self

from anyio import ClosedResourceError, EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from toolwright.core.errors import NotStarted
from toolwright.core.sanitize import MAX_LOG_CHARS, escape_line
from toolwright.providers.mcp.routes.bulk import bulky, too_bulky
from toolwright.providers.mcp.routes.route import Ended
from toolwright.providers.mcp.routes.trouble import CONNECTION_CLOSED, PARSE_ERROR, Met, Trouble, tell

_TURN = 64
"""Messages that are handed over in a row before others have their turn."""
_MOST_LOGGED = 20
"""Lines that are no messages, of which each is logged; after that, each time that they have doubled."""
_END = 512
"""Bytes at either end of a message in which its id is looked for, where it is too large to be read for that."""
_SHORT = 64 * 1024
_RESULT = frozenset({"jsonrpc", "id", "result"})
_ID = r'"id"\s*:\s*("[^"\\]{0,100}"|\d{1,20})\s*'
_VERSION = r'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rf"\s*{{\s*(?:{_VERSION},\s*)?{_ID}[,}}]\s*(?!\"method\")")
_LAST = re.compile(rf",\s*{_ID}(?:,\s*{_VERSION})?}}\s*$")


class TooLarge(Exception):
    """A message is larger than it may be."""


class Line(Protocol):
    """What carries the messages."""

    async def take(self) -> Sequence[bytes | str]:
        """The next messages; none once no more will come. Raises `TooLarge`."""
        ...

    async def put(self, frame: str) -> None:
        """Send one message; raises `OSError` once nobody reads any more, `Met` if only this one failed."""
        ...

    async def last_words(self) -> str:
        """Why the other side has gone."""
        ...


class Wire:
    """What goes over a line, and which requests still wait for their answers."""

    def __init__(self, line: Line, *, log: logging.Logger, ended: Ended) -> None:
        self._line, self._log, self._tell_ended = line, log, ended
        self._put_now: Callable[[bytes], bool] | None = getattr(line, "put_now", None)
        self.writes_now = self._put_now is not None
        """Whether `put_now` may do something, now or later."""
        self._waiting: dict[str, Any] = {}
        self._reason: str | None = None
        self._left = False
        self.over = False
        """Whether no more will be read."""
        self.dropped = 0
        """How many lines were no messages."""

    def leave(self) -> None:
        """From now on the end is ours, and nobody is told of it."""
        self._left, self.writes_now = True, False

    def put_now(self, number: int, frame: bytes) -> bool:
        """Write a request if that can be done at once; what stands in the way is for `send` to find out."""
        if not self.writes_now or self._put_now is None:
            return False
        try:
            written = self._put_now(frame)
        except OSError:
            return False
        if written:
            self._waiting[str(number)] = number
        return written

    def straight_to(self, told: Callable[[int, dict[str, Any]], bool]) -> None:
        """Say who is told of results the moment they come, if the line can do so, and answers whether one is taken."""
        if (straight_to := getattr(self._line, "straight_to", None)) is not None:
            self._told = told
            straight_to(self._straight)

    def _straight(self, frame: bytes) -> bool:
        """Whether it is a result in its plainest form, which was taken; all else is read as a message in its turn."""
        try:
            message = from_json(frame)
        except ValueError:
            return False
        if type(message) is not dict or message.keys() != _RESULT or message["jsonrpc"] != "2.0":
            return False
        number, result = message["id"], message["result"]
        if type(number) is not int or type(result) is not dict or not self._told(number, result):
            return False
        self._waiting.pop(str(number), None)
        return True

    async def send(self, message: Any) -> None:
        """Write one message, once those before it have been taken."""
        if self._reason is not None or self._left:
            self._refuse(message)
        self._remember(message)
        try:
            await self._line.put(message.model_dump_json(by_alias=True, exclude_unset=True))
        except OSError:
            self._end(await self._line.last_words())
            self._refuse(message)
        except Met:  # this one failed; those that nobody waits for fail in silence
            if not isinstance(message, JSONRPCRequest):
                raise ClosedResourceError from None
            self._waiting.pop(str(message.id), None)
            raise

    def _refuse(self, message: Any) -> NoReturn:
        """It was not sent. The library expects its own error where nobody waits for an answer."""
        if not isinstance(message, JSONRPCRequest):
            raise ClosedResourceError
        self._waiting.pop(str(message.id), None)
        raise NotStarted(self._reason or "The connection to the server is closed.")

    def _remember(self, message: Any) -> None:
        if isinstance(message, JSONRPCRequest):
            self._waiting[str(message.id)] = message.id
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._waiting.pop(str((message.params or {}).get("requestId")), None)

    async def messages(self) -> list[SessionMessage]:
        """The next messages; the last are those that tell whoever still waits why nothing more will come."""
        try:
            frames = await self._line.take()
        except TooLarge as error:
            return self._farewell(str(error))
        if not frames:
            return self._farewell(await self._line.last_words())
        messages = list(self._parsed(frames[:_TURN]))
        for start in range(_TURN, len(frames), _TURN):  # one piece may have a million lines, none of them a message
            await asyncio.sleep(0)
            messages += self._parsed(frames[start : start + _TURN])
        return messages

    def _parsed(self, frames: Sequence[bytes | str]) -> Iterator[SessionMessage]:
        for frame in frames:
            if too_bulky(frame):
                yield from self._drop(frame, bulky())
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
            except ValueError:
                yield from self._drop(frame, Trouble(True, False, "The server's answer is no message of the protocol."))
                continue
            if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                self._waiting.pop(str(message.id), None)
            yield SessionMessage(message)

    def _drop(self, frame: bytes | str, met: Trouble) -> Iterator[SessionMessage]:
        """What is no message is not handed on. If it was meant as an answer, whoever waits for it is told."""
        if not frame.strip():
            return
        self.dropped += 1
        if self.dropped <= _MOST_LOGGED or self.dropped.bit_count() == 1:
            self._log.warning(
                "What is no message was dropped (%d so far): %s",
                self.dropped,
                escape_line(frame.rstrip(), MAX_LOG_CHARS),
            )
        if (asked := self._waiting.pop(self._meant_for(frame, met), None)) is not None:
            yield _failure(asked, PARSE_ERROR, met.message, tell(met))

    def _meant_for(self, frame: bytes | str, met: Trouble) -> str:
        """Megabytes are read a second time only where somebody seems to wait for them."""
        if len(frame) <= _SHORT:
            return _answered_by(frame)
        asked = _answered_at_an_end(frame)
        return asked if met.answered or asked not in self._waiting else _answered_by(frame)

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason, self.writes_now = reason, False
            if not self._left:
                self._tell_ended(reason)

    def _farewell(self, reason: str) -> list[SessionMessage]:
        self._end(reason)
        self.over = True
        waiting, self._waiting = list(self._waiting.values()), {}
        data = tell(Trouble(True, True, reason)) if waiting else {}
        return [_failure(asked, CONNECTION_CLOSED, reason, data) for asked in waiting]


def _answered_at_an_end(frame: bytes | str) -> str:
    """The id that stands first or last in a message, which is not read for it."""
    head, tail = (
        part if isinstance(part, str) else part.decode(errors="replace") for part in (frame[:_END], frame[-_END:])
    )
    found = _FIRST.match(head) or _LAST.search(tail)
    return found[1].strip('"') if found else ""


def _answered_by(frame: bytes | str) -> str:
    """The id of the request that something was meant to answer."""
    try:
        read = json.loads(frame)
    except (ValueError, RecursionError):
        return _answered_at_an_end(frame)
    return str(read.get("id")) if isinstance(read, dict) and "method" not in read else ""


def _failure(asked: Any, code: int, reason: str, data: Any) -> SessionMessage:
    error = ErrorData(code=code, message=reason, data=data)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=asked, error=error))


class Reading:
    """The messages of the other side: they are read when somebody asks for them, and no earlier."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ready: deque[SessionMessage] = deque()
        self._given = 0
        self._closed = False

    async def receive(self) -> SessionMessage:
        """The next message; raises `EndOfStream` when there is none."""
        while not self._ready:
            if self._closed:
                raise ClosedResourceError
            if self._wire.over:
                raise EndOfStream
            self._ready.extend(await self._wire.messages())
        self._given += 1
        if self._given % _TURN == 0:
            await asyncio.sleep(0)
        return self._ready.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Nobody reads any more."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Writing:
    """The messages to the other side."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._closed = False
        self.put_now = wire.put_now if wire.writes_now else None
        self.straight_to = wire.straight_to

    async def send(self, item: SessionMessage) -> None:
        """Write one message."""
        if self._closed:
            raise ClosedResourceError
        await self._wire.send(item.message)

    async def aclose(self) -> None:
        """Nobody writes any more."""
        self._closed, self._wire.writes_now = True, False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
