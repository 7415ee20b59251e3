"""Reply: what some work comes to, said over HTTP: in one body, or in a stream if that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from toolwright.gateway.mcp.http.sessions import SESSION

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send

    from toolwright.core.clock import Deadlines

AT_ONCE = 0.05
"""Seconds for which nobody looks whether the client is still there: most calls are over by then."""
PING = 15.0
"""Seconds after which something is sent, so that nobody between here and the client takes the connection for dead."""
_JSON = [(b"content-type", b"application/json")]
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


class Said(NamedTuple):
    """An answer: one message, and the status that it has if that can still be chosen."""

    body: bytes
    status: int = 200


class Reply:
    """The answer to one request of the newer protocol; or of the older, in a session.

    In a session a request runs on if its client leaves, and what takes more than a moment is a stream from then on.
    """

    def __init__(self, receive: Receive, send: Send, moments: Deadlines, *, session: str | None = None) -> None:
        self._receive, self._send, self._is_in_session = receive, send, session is not None
        self._moments = moments
        self._headers = [] if session is None else [(SESSION.encode(), session.encode("latin-1"))]
        self._task: asyncio.Task[Any] | None = None
        self._beside: list[asyncio.Task[None]] = []
        # Some clients of the older protocol do not bear a plain body while they are leaving.
        self._is_in_events = session is not None
        self._has_begun = False
        self._instead: Said | None = None

    async def of(self, work: Coroutine[Any, Any, Said | None]) -> bool:
        """Say what the work says, and whether it said anything; it is cancelled if it is to end before."""
        self._task = task = asyncio.current_task()
        assert task is not None
        timer = self._moments.start(AT_ONCE, self._look_after)
        try:
            said = await work
        except asyncio.CancelledError:
            if self._instead is None or task.cancelling() > 1:
                raise  # it is the server that ends
            said = self._instead
        finally:
            self._task = None
            if self._instead is not None:
                task.uncancel()
            timer.cancel()
            if self._beside:
                await self._left_alone()
        if said is not None:
            await self._say(said)
        return said is not None

    def end(self, instead: Said) -> None:
        """End the work, and say this instead."""
        if self._task is not None and self._instead is None:
            self._instead = instead
            self._task.cancel()

    async def more(self, message: Message) -> None:
        """Send what somebody else has to say to the same request, who does not know that a stream has begun."""
        if not (self._has_begun and message["type"] == "http.response.start"):
            await self._send(message)

    async def _say(self, said: Said) -> None:
        body = b"event: message\r\ndata: %b\r\n\r\n" % said.body if self._is_in_events else said.body
        if not self._has_begun:
            kind = _STREAM if self._is_in_events else _JSON
            headers = [(b"content-length", b"%d" % len(body)), *kind, *self._headers]
            await self._send({"type": "http.response.start", "status": said.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    # While it takes long

    def _look_after(self) -> None:
        watching = [self._ping()] if self._is_in_session else [self._ping(), self._watch()]
        self._beside = [asyncio.create_task(each, name="mcp: reply") for each in watching]

    async def _left_alone(self) -> None:
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.end(Said(b""))  # which nobody hears

    async def _ping(self) -> None:
        if not self._is_in_session:
            await asyncio.sleep(PING - AT_ONCE)
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *self._headers]})
        self._has_begun = self._is_in_events = True
        while True:
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(PING)
