"""Reading: the messages of one client, and how its connection ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolwright.gateway.mcp.messages.allowance import AT_ONCE, LARGEST, ROOM
from toolwright.gateway.mcp.messages.frames import Call, Wrong, write
from toolwright.gateway.mcp.pipe.gate import HELD, Gate
from toolwright.gateway.mcp.pipe.inlet import Inlet
from toolwright.gateway.mcp.pipe.lines import Lines
from toolwright.gateway.mcp.pipe.outlet import PATIENCE, Outlet

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    from toolwright.gateway.mcp.pipe.short import Short

GRACE, AT_MOST = 0.5, 5.0
"""Seconds without an answer, and in all, after which what still runs is ended once nothing more can come."""
_HELD_UP = 0.05
"""Seconds late at which a timer tells that this process did not run meanwhile, and so nothing could be answered."""
_TURN = 64
"""Messages that are handed on in a row before others have their turn."""
_BACKLOG = 1024
"""Messages that may wait to be handed on, and refusals to be read; then no more are taken."""
_LEAD = 8
"""Messages before the first request that are kept."""


class Reading:
    """What a client says, message by message: the one half of what the library's server runs on."""

    def __init__(
        self,
        reading: int,
        writing: int,
        *,
        most: int = LARGEST,
        at_once: int = AT_ONCE,
        room: int = ROOM,
        held: int = HELD,
        patience: float = PATIENCE,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.outlet = Outlet(writing, roomy=self._go_on, lost=self.finish, patience=patience)
        self.gate = Gate(self._refuse, self._settled, self._taken, at_once=at_once, room=room, held=held)
        self._lines, self._inlet = Lines(most), Inlet(reading, self._take)
        self._waiter: asyncio.Future[None] | None = None
        self._given = self._complaints = 0
        self._grace: asyncio.TimerHandle | None = None
        self._due = self._until = 0.0
        self._is_over = False
        """Whether nothing more can come."""
        self.begun = False
        """Whether anybody has asked for a message yet."""
        self.short: Short | None = None
        """Takes what need not be handed on."""
        self.finished = False
        """Whether nothing more is handed on."""
        self._inlet.start()

    def finish(self) -> None:
        """Hand nothing more on: whoever serves this ends what still runs."""
        self.finished = True
        self._inlet.stop()
        if self._grace is not None:
            self._grace.cancel()
        self._wake()

    async def opening(self) -> JSONRPCRequest | None:
        """The first request, which is still handed on, with a few messages before it; None if no request comes."""
        self.begun = True
        if self._is_over:
            self._part()
        ready = self.gate.ready
        while not self.finished:
            for each in ready:
                if isinstance(each.message, JSONRPCRequest):
                    return each.message
            while len(ready) > _LEAD:
                ready.pop()
            await self._more()
        return None

    async def _more(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    async def receive(self) -> SessionMessage:
        """The next message that nobody took; raises `EndOfStream` when there is none."""
        message = await self._next()
        while self.short is not None and self.short.takes(message.message):
            message = await self._next()
        return message

    async def _next(self) -> SessionMessage:
        ready = self.gate.ready
        while not ready and not self.finished:
            await self._more()
        self._given += 1
        if self._given % _TURN == 0:
            await asyncio.sleep(0)
        if self.finished:
            raise EndOfStream
        message = ready.popleft()
        if len(ready) == _BACKLOG // 2:
            self._go_on()
        return message

    def _taken(self, message: Call | JSONRPCNotification) -> bool:
        """Whether a message needs nobody to be woken for it: all before it was handed on, and somebody waits for it."""
        if self.short is None or self.finished or self.gate.ready:
            return False
        return self._waiter is not None and not self._waiter.done() and self.short.takes(message)

    def _take(self, data: bytes) -> None:
        if not data:
            self._is_over = True
            if self.begun:  # while the runtime starts, nobody could answer yet
                self._part()
        for line in self._lines.split(data):
            if line and line != b"\r":
                self.gate.take(line)
        if self._crowded:
            self._inlet.pause()
        self._look()

    @property
    def _crowded(self) -> bool:
        return len(self.gate.ready) > _BACKLOG or self._complaints > _BACKLOG

    def _go_on(self) -> None:
        if not self.outlet.crowded:
            self._complaints = 0
        if not self._crowded:
            self._inlet.start()

    def _refuse(self, wrong: Wrong) -> None:
        # Answers wait until there is room for them. These cannot, but then no more is read that could be refused.
        self._complaints += self.outlet.crowded
        self.outlet.put(write(wrong.message()))

    def _settled(self) -> None:
        """A request was answered."""
        if self._grace is not None and not self.finished:
            self._wait_for_answers()
        self._look()

    def _part(self) -> None:
        self._until = self._loop.time() + AT_MOST
        self._wait_for_answers()
        self._look()

    def _wait_for_answers(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._due = min(self._loop.time() + GRACE, self._until)
        self._grace = self._loop.call_at(self._due, self._out_of_time)

    def _out_of_time(self) -> None:
        if self._due + _HELD_UP < self._loop.time() < self._until:
            self._wait_for_answers()
        else:
            self.finish()

    def _look(self) -> None:
        if self.gate.ready:
            self._wake()
        elif self._grace is not None and self.gate.idle:
            self.finish()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Nobody reads any more."""
        self.finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Writing:
    """What a client is told: the other half."""

    def __init__(self, reading: Reading) -> None:
        self._outlet, self._gate = reading.outlet, reading.gate
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write one message, once there is room for it."""
        if self._closed:
            raise ClosedResourceError
        if self._outlet.crowded:
            await self._outlet.room()
        if self._outlet.gone:
            raise BrokenResourceError
        message = item.message
        self._outlet.put(write(message))
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._gate.done(message.id)

    async def aclose(self) -> None:
        """Nobody writes any more."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
