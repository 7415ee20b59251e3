"""Server-sent events: an HTTP response of events, from the client's last one on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic_core import to_json
from starlette.responses import Response

from surehand.core.event_formats import SPACES_FAMILY, format_event
from surehand.core.events import Missed
from surehand.gateway.events.event_json import EVENTS_IN_SPACES, event_from_json
from surehand.gateway.events.event_log import LoggedEvent
from surehand.gateway.events.feed import EventFeed, EventListener, IsVisible, format_event_id
from surehand.gateway.events.space_events import MESSAGE_EVENTS, call_event_fields
from surehand.store.tables.streams import StreamEvent, space_stream

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from surehand.store.store import Store

log = logging.getLogger("surehand")
PING_SECONDS = 15.0
MIN_PING_SECONDS = 0.01
LAST_EVENT_SECONDS = 1.0
"""How long the event that ends a stream may take after the call itself has ended."""
_TYPES_IN_SPACES = frozenset(each.__name__ for each in EVENTS_IN_SPACES)
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class ReadAccess(Protocol):
    """The right to read a stream, which may end while it is open."""

    @property
    def seconds_left(self) -> float:
        """After how many seconds it ends by itself."""

    async def is_valid(self) -> bool:
        """Whether the client may read on."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a client asks to follow."""

    is_visible: IsVisible
    after: int | None = None
    """The number of the client's last event; None to start with new ones."""
    has_unknown_start: bool = False
    """Whether the client's last event is of an earlier process, so that how many it missed is not known."""
    family: str | None = None
    """A family of `core/event_formats.py`; None for our own names and fields."""
    is_last: Callable[[Mapping[str, Any]], bool] = lambda fields: False
    """Whether the stream ends with an event."""
    final_event: Callable[[], Awaitable[Mapping[str, Any] | None]] | None = None
    """Builds the event that ends the stream, once the call is over, if no other event does."""
    access: ReadAccess | None = None
    """None for the stream of a request that made a call or a run: its response may be read to its end."""
    ends_at_shutdown: bool = True
    """False for the stream of a request that made a call or a run: it ends with that, also when the gateway stops."""


class EventStreamResponse(Response):
    """Server-sent events; ends with the client, at the last event, or when the gateway shuts down."""

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        quota: AbstractContextManager[None] | None = None,
        *,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`quota` is entered while the stream is open: it counts the stream against a limit."""
        super().__init__(headers=_HEADERS)
        self._on_disconnect = on_disconnect
        # The length is unknown: without this header, the body is sent in chunks.
        del self.headers["content-length"]
        self._frames = frames
        self._exit_stack = ExitStack()
        if quota is not None:  # now, so that a stream too many is refused before the response begins
            self._exit_stack.enter_context(quota)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until one of the ends."""
        with self._exit_stack:
            sender = asyncio.create_task(self._send_all(send))
            client = asyncio.create_task(_wait_for_disconnect(receive))
            try:
                await asyncio.wait({sender, client}, return_when=asyncio.FIRST_COMPLETED)
                if not sender.done() and self._on_disconnect is not None:
                    await self._on_disconnect()
            finally:
                for task in (sender, client):
                    task.cancel()
                await asyncio.wait({sender, client})
        if not sender.cancelled() and (error := sender.exception()) is not None and not isinstance(error, OSError):
            raise error

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # At once, because a browser's `EventSource` is open only when something has arrived.
        await send({"type": "http.response.body", "body": KEEPALIVE_COMMENT, "more_body": True})
        async with aclosing(self._frames) as frames:  # type: ignore[type-var]  # it is a generator
            async for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def feed_frames(
    feed: EventFeed, request: StreamRequest, *, ping_seconds: float = PING_SECONDS
) -> AsyncIterator[bytes]:
    """The events of a feed that a client asks for: those after its last one, then new ones."""
    encoder = FrameEncoder(request.family, feed.event_log.epoch)
    # Listen first: an event that is published while older ones are read must not be lost between the two.
    async with feed.listen(request.is_visible, ends_at_shutdown=request.ends_at_shutdown) as listener:
        number = 0
        if request.has_unknown_start:
            yield encoder.missed_frame(None)
        if request.after is not None:
            async for each in feed.event_log.read_after(request.after):
                if isinstance(each, LoggedEvent):
                    number = each.number
                    if not request.is_visible(each.fields):
                        continue
                if request.access is not None and not await request.access.is_valid():
                    return
                yield encoder.frame(each)
                if isinstance(each, LoggedEvent) and request.is_last(each.fields):
                    return
        async for part in _listener_frames(listener, encoder, request, number, ping_seconds):
            yield part


async def _listener_frames(
    listener: EventListener, encoder: FrameEncoder, request: StreamRequest, number: int, ping_seconds: float
) -> AsyncIterator[bytes]:
    """The events that a listener gets, after a number."""
    while True:
        # The event that ends the stream may still be on its way when the call is over, so look twice.
        final_event = None if request.final_event is None else await request.final_event()
        seconds = ping_seconds if request.final_event is None else LAST_EVENT_SECONDS
        if request.access is not None:
            seconds = min(seconds, max(request.access.seconds_left, MIN_PING_SECONDS))
        news = await listener.wait(seconds)
        if request.access is not None and not await request.access.is_valid():
            return
        fresh = [each for each in news if isinstance(each, Missed) or each.number > number]
        if not news and final_event is not None:
            yield encoder.format(final_event, None)
            return
        if not news and not listener.is_closed:
            yield KEEPALIVE_COMMENT
        for index, each in enumerate(fresh):
            if isinstance(each, LoggedEvent) and request.is_last(each.fields):
                yield b"".join(map(encoder.frame, fresh[: index + 1]))
                return
        if part := b"".join(map(encoder.frame, fresh)):
            yield part
        if listener.is_closed:
            return


async def space_frames(
    feed: EventFeed,
    store: Store,
    space_id: str,
    after: int | None,
    *,
    access: ReadAccess | None = None,
    family: str | None = None,
    ping_seconds: float = PING_SECONDS,
) -> AsyncIterator[bytes]:
    """The events of a space after a number, then new ones; ends when the gateway shuts down."""
    stream = space_stream(space_id)

    def is_visible(fields: Mapping[str, Any]) -> bool:
        if fields["type"] in _TYPES_IN_SPACES:
            return space_id == fields.get("space")
        return space_id == fields.get("spaceId")

    request = StreamRequest(is_visible, access=access)
    start = await store.streams.last(stream) if after is None else after
    async with feed.listen(request.is_visible) as listener:

        async def read() -> None:
            try:
                async for each in store.streams.follow(stream, start):
                    if isinstance(each, Missed):
                        await listener.put_when_read(each)
                    else:
                        await listener.put_when_read(await _event_of_space(store, each, family))
            except Exception:
                log.exception("The events of the space %s could not be read, and a stream of them ends", space_id)
            finally:
                listener.close()

        reader = asyncio.create_task(read(), name="gateway: read a space")
        try:
            async for part in _listener_frames(listener, _SpaceEncoder(family, ""), request, 0, ping_seconds):
                yield part
        finally:
            reader.cancel()
            await asyncio.wait({reader})


async def _event_of_space(store: Store, event: StreamEvent, family: str | None) -> LoggedEvent:
    """An event of a space, with the fields from which its encoder formats a family."""
    fields = {**event.data, "type": event.kind}
    if family == SPACES_FAMILY and event.kind in MESSAGE_EVENTS:
        frame = FrameEncoder(None, "").format(fields, str(event.number))
        return LoggedEvent(event.number, fields, {family: frame})
    call_fields = None if family is None else await call_event_fields(store, event)
    return LoggedEvent(event.number, fields if call_fields is None else call_fields)


class FrameEncoder:
    """Writes events as server-sent events, in our own format or in that of a family."""

    def __init__(self, family: str | None, epoch: str) -> None:
        self._family = family
        self._epoch = epoch

    def frame(self, event: LoggedEvent | Missed) -> bytes:
        """The bytes of an event."""
        if isinstance(event, Missed):
            return self.missed_frame(event.count)
        frame = event.frames.get(self._family)
        if frame is None:
            frame = self.format(event.fields, format_event_id(self._epoch, event.number))
            event.frames[self._family] = frame
        return frame

    def missed_frame(self, count: int | None) -> bytes:
        """The bytes of `Missed` with the number of missing events; null if that is not known."""
        data = to_json({"type": "Missed", "count": count}).decode()
        return format_sse_event(event="Missed", data_str=data)

    def format(self, fields: Mapping[str, Any], event_id: str | None) -> bytes:
        """The bytes of the JSON of an event; only its id, if the family has no such event."""
        encoded_fields: Mapping[str, Any] | None = fields
        if self._family is not None and fields["type"] != "Missed":
            event = event_from_json(fields)
            encoded_fields = None if event is None else format_event(event, self._family, task=fields.get("task"))
        if encoded_fields is None:
            return b"" if event_id is None else format_sse_event(id=event_id)
        return format_sse_event(event=encoded_fields["type"], data_str=to_json(encoded_fields).decode(), id=event_id)


class _SpaceEncoder(FrameEncoder):
    """Writes the events of a space, and those of runs in it: agents at work, and what their models write for it."""

    def frame(self, event: LoggedEvent | Missed) -> bytes:
        if isinstance(event, LoggedEvent) and event.fields["type"] in _TYPES_IN_SPACES:
            if self._family is None and event.fields["type"] == "ToolInputDelta" and not event.fields["text"]:
                return b""  # it begins a call, whose `tool-call.start` of the space has more fields
            # Without an id: it is no event of the space's stream, and a client cannot read on after it.
            return FrameEncoder(self._family or SPACES_FAMILY, "").format(event.fields, None)
        return super().frame(event)


async def _wait_for_disconnect(receive: Receive) -> None:
    with suppress(OSError):
        while (await receive())["type"] != "http.disconnect":
            pass
