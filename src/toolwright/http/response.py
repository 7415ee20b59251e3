"""Response: what came back, whole as a value or piece by piece while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from toolwright.core.errors import ToolError
from toolwright.http.decoding import PIECE, Decoder, decoder_of
from toolwright.http.failures import told
from toolwright.http.headers import Headers
from toolwright.http.target import Target

if TYPE_CHECKING:
    import httpcore2


@dataclass(frozen=True, slots=True)
class Head:
    """The first part of what came back."""

    method: str
    url: str
    """Where it came from in the end, after redirects."""
    status: int
    reason: str
    headers: Headers

    @property
    def host(self) -> str:
        """Whose answer it is."""
        return urlsplit(self.url).hostname or ""

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    def header(self, name: str, default: str = "") -> str:
        """The value of a header; several of one name are joined."""
        found = [value for known, value in self.headers if known.lower() == name.lower()]
        return ", ".join(found) if found else default


@dataclass(frozen=True, slots=True)
class Response(Head):
    """What came back, whole."""

    body: bytes = b""
    truncated: bool = False
    """Whether the body goes on beyond what was read of it."""


class Incoming:
    """An answer whose body is still arriving."""

    def __init__(self, head: Head, stream: Any, *, max_bytes: int | None, max_ratio: float) -> None:
        self.head = head
        self._stream, self._max_bytes = stream, max_bytes
        self._decoder: Decoder = decoder_of(head.header("content-encoding"), max_ratio)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces of at most 64 KiB, unpacked; raises `too_large` beyond the limit."""
        read = 0
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                read += len(piece)
                if self._max_bytes is not None and read > self._max_bytes:
                    raise too_large(self._max_bytes)
                yield piece

    async def read(self, *, cut: bool = False, most: int | None = None) -> Response:
        """The whole body; where it is larger than the limit, an error or, with `cut`, its beginning."""
        limit = self._max_bytes if most is None else most
        if not cut and limit is not None and self._announced() > limit:
            raise too_large(limit)
        body, truncated = bytearray(), False
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                body += piece
                if limit is not None and len(body) > limit:
                    if not cut:
                        raise too_large(limit)
                    del body[limit:]
                    truncated = True
                    break
        head = self.head
        return Response(head.method, head.url, head.status, head.reason, head.headers, bytes(body), truncated)

    def _announced(self) -> int:
        length = self.head.header("content-length")
        return int(length) if length.isascii() and length.isdigit() and self.head.method != "HEAD" else 0

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        taken = count = 0
        with told(self.head.host):
            async with aclosing(aiter(self._stream)) as raw:
                async for data in raw:
                    taken, count = taken + len(data), count + 1
                    if self._max_bytes is not None and taken > self._max_bytes * 1.01 + PIECE:
                        raise too_large(self._max_bytes)  # unpacks to next to nothing, and does not end
                    if count % 64 == 0:
                        await asyncio.sleep(0)  # thousands of chunks may come in one packet, and others want a turn
                    for piece in self._decoder.feed(data):
                        yield piece
            self._decoder.finish()


def head_of(method: str, target: Target, answer: httpcore2.Response, max_header_bytes: int) -> Head:
    """The head of an answer, within bounds."""
    size = sum(len(name) + len(value) + 4 for name, value in answer.headers)
    if size > max_header_bytes:
        raise ToolError(f"{target.host} answered with {size} bytes of headers; at most {max_header_bytes} are read.")
    if answer.status < 200:
        raise ToolError(f"{target.host} answered with status {answer.status}, which nobody asked for.")
    headers = tuple((_text(name), _text(value)) for name, value in answer.headers)
    reason = _text(answer.extensions.get("reason_phrase", b""))[:200]
    return Head(method, target.url, answer.status, reason, headers)


async def release(answer: httpcore2.Response) -> None:
    """Give a connection back, or end it where more has come in than was asked for.

    What is left over would be read as the answer to the next request, which may be somebody else's.
    """
    if _has_surplus(answer):
        await answer.extensions["network_stream"].aclose()
    await cast(Any, answer.stream).aclose()


def _has_surplus(answer: httpcore2.Response) -> bool:
    """No public name leads to what was received and not read; where the private ones are gone, expect the worst."""
    stream: Any = answer.stream
    try:
        return bool(stream._stream._connection._h11_state.trailing_data[0])
    except AttributeError:
        return True


def too_large(limit: int) -> ToolError:
    """What somebody is told whose answer is larger than it may be."""
    return ToolError(
        f"The answer is larger than {limit} bytes and was not read any further. Ask for less, or for a part of it.",
        code="too_large",
    )


def _text(raw: bytes) -> str:
    """Servers send UTF-8 where only Latin-1 was foreseen."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
