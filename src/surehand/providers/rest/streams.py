"""Streams: NDJSON, server-sent events, and the json-stream mode whose lines are tokens of an answer.

Each item is reported as progress when it arrives. The result is the list of all items, the last item, or, in the
json-stream mode, the answer. The HTTP client limits the size; the time limit of the tool ends a stream that does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.core.errors import ToolError, Unavailable
from surehand.core.sanitize import strip_hidden
from surehand.http.response import IncomingResponse

Collect: TypeAlias = Literal["items", "last"]
"""The result of a stream: the list of its items, or the last one."""

MAX_ITEM_BYTES = 1024 * 1024
"""Bytes of one line or event."""
MAX_ITEMS = 10_000
"""Items of a stream whose result is the list of them."""
MAX_REPORTED_ITEMS = 500_000
"""Items of a stream with another result: each of them is progress, which listeners are told."""
END_MARKER = "[DONE]"
"""Data with which many services end a stream of events."""


@dataclass(frozen=True, slots=True)
class NdjsonFormat:
    """Each line is a JSON value."""

    collect: Collect = "items"


@dataclass(frozen=True, slots=True)
class EventStreamFormat:
    """Server-sent events; the data of an event is JSON or text."""

    collect: Collect = "items"


@dataclass(frozen=True, slots=True)
class JsonStreamFormat:
    """Lines of JSON objects: tokens of an answer, and one that says that it is done. Other lines are ignored."""

    line_prefix: str = ""
    discriminator_field: str = "type"
    done_value: str = "done"
    answer_field: str = "answer"
    token_value: str = "token"
    token_field: str = "content"
    max_bytes: int | None = None


StreamFormat: TypeAlias = NdjsonFormat | EventStreamFormat | JsonStreamFormat
ReportItem: TypeAlias = Callable[[Mapping[str, Any]], None]

_NDJSON_TYPES = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-seq",
    }
)


def detect_stream(content_type: str) -> StreamFormat | None:
    """The format of a stream by its content type; None if the response is no stream."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "text/event-stream":
        return EventStreamFormat()
    return NdjsonFormat() if media_type in _NDJSON_TYPES else None


async def read_stream(incoming: IncomingResponse, stream: StreamFormat, report: ReportItem) -> Any:
    """Read a stream to its end and return its result."""
    match stream:
        case JsonStreamFormat():
            return await _read_json_stream(incoming, stream, report)
        case NdjsonFormat(collect):
            return await _collect(_ndjson_items(incoming), collect, report)
        case EventStreamFormat(collect):
            return await _collect(_events(incoming), collect, report)


async def _collect(items: AsyncIterator[Any], collect: Collect, report: ReportItem) -> Any:
    collected: list[Any] = []
    last: Any = None
    limit = MAX_ITEMS if collect == "items" else MAX_REPORTED_ITEMS
    count = 0
    async for item in items:
        count += 1
        _check_count(count, limit)
        report(_progress_update(item))
        last = item
        if collect == "items":
            collected.append(item)
    return collected if collect == "items" else last


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise ToolError(f"The stream has more than {limit:,} items. Ask for less.", code="too_large")


def _progress_update(item: Any) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        message = item.get("text")
        return {"message": message, **item} if isinstance(message, str) else dict(item)
    return {"message": item} if isinstance(item, str) else {"item": item}


async def _lines(incoming: IncomingResponse) -> AsyncIterator[bytes]:
    """The lines of a body, without their ends. A last line without an end counts."""
    buffer = bytearray()
    async with aclosing(incoming.chunks()) as chunks:
        async for chunk in chunks:
            # Only what is new is looked at: a line may arrive byte by byte.
            first, *others = chunk.split(b"\n")
            buffer += first
            for beginning in others:
                yield bytes(buffer).removesuffix(b"\r")
                buffer = bytearray(beginning)
            if len(buffer) > MAX_ITEM_BYTES:
                raise ToolError(f"A line of the stream is larger than {MAX_ITEM_BYTES} bytes.", code="too_large")
    if buffer:
        yield bytes(buffer).removesuffix(b"\r")


async def _ndjson_items(incoming: IncomingResponse) -> AsyncIterator[Any]:
    from pydantic_core import from_json  # loaded with the first response

    async for line in _lines(incoming):
        line = line.strip(b" \t\x1e")  # a record separator begins each text of a JSON sequence (RFC 7464)
        if not line:
            continue
        try:
            yield from_json(line, allow_inf_nan=False)
        except ValueError:
            raise Unavailable("The stream broke off, or a line of it is no JSON.") from None


async def _events(incoming: IncomingResponse) -> AsyncIterator[Any]:
    """The data of each event, parsed if it is JSON; an event with a name or an id is an object with them."""
    import httpx2  # heavy, and an extra
    from pydantic_core import from_json

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async with aclosing(incoming.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk

    request = httpx2.Request("GET", "http://stream")  # `EventSource` names it in its errors, and reads nothing from it
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(), request=request)
    try:
        async for event in httpx2.EventSource(response, max_event_size=MAX_ITEM_BYTES):
            if event.data == END_MARKER:
                return
            if not event.data:  # the standard says that such an event is not dispatched
                continue
            try:
                data = from_json(event.data, allow_inf_nan=False)
            except ValueError:
                data = strip_hidden(event.data)
            is_named = event.event not in ("", "message")
            yield {"event": event.event, "data": data} if is_named else data
    except httpx2.SSEError as error:
        raise ToolError(f"The stream of events cannot be read: {error}") from error


async def _read_json_stream(incoming: IncomingResponse, stream: JsonStreamFormat, report: ReportItem) -> Any:
    from pydantic_core import from_json  # loaded with the first response

    prefix = stream.line_prefix.encode()
    tokens: list[str] = []
    size = 0
    count = 0
    async for line in _lines(incoming):
        size += len(line) + 1
        if stream.max_bytes is not None and size > stream.max_bytes:
            raise ToolError(f"The stream is larger than {stream.max_bytes} bytes.", code="too_large")
        if not line.startswith(prefix):
            continue
        text = line[len(prefix) :].strip()
        try:
            item = from_json(text, allow_inf_nan=False)
        except ValueError:  # `[DONE]`, comments and whatever else a service sends between its lines
            continue
        if not isinstance(item, dict):
            continue
        count += 1
        _check_count(count, MAX_REPORTED_ITEMS)
        kind = item.get(stream.discriminator_field)
        if kind == stream.done_value:
            return item[stream.answer_field] if stream.answer_field in item else "".join(tokens)
        if kind == stream.token_value and isinstance(item.get(stream.token_field), str):
            tokens.append(item[stream.token_field])
            report({"message": item[stream.token_field]})
        else:
            report(item)
    return "".join(tokens)
