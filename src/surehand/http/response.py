"""Responses: `ResponseHead`, the whole `HttpResponse`, and `IncomingResponse`, whose body is still arriving.

Bodies are unpacked and limited here, for `client.py` and for `transport.py` alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from surehand.core.errors import ToolError
from surehand.http.decoding import MAX_PIECE_BYTES, Decoder, decoder_for
from surehand.http.errors import http_errors_as_tool_errors
from surehand.http.headers import HeaderPairs
from surehand.http.target import HttpTarget

if TYPE_CHECKING:
    import httpcore2


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status line and headers of a response."""

    method: str
    url: str
    """The URL that responded, after redirects."""
    status: int
    reason: str
    headers: HeaderPairs

    @property
    def host(self) -> str:
        """The host that responded."""
        return urlsplit(self.url).hostname or ""

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    def header(self, name: str, default: str = "") -> str:
        """The value of a header; several of one name are joined."""
        values = [value for known, value in self.headers if known.lower() == name.lower()]
        return ", ".join(values) if values else default


@dataclass(frozen=True, slots=True)
class HttpResponse(ResponseHead):
    """A response that was read to its end, or to a limit."""

    body: bytes = b""
    truncated: bool = False
    """Whether the body is longer than the part that was read."""


class IncomingResponse:
    """A response whose body is still arriving.

    Args:
        max_bytes: of the unpacked body; None for no limit.
        max_ratio: how many times its size a compressed body may unpack to.
    """

    def __init__(
        self, head: ResponseHead, response: httpcore2.Response, *, max_bytes: int | None, max_ratio: float
    ) -> None:
        self.head = head
        self.response = response
        """The response of `httpcore2`, with the headers as bytes."""
        self._max_bytes = max_bytes
        self._decoder: Decoder = decoder_for(head.header("content-encoding"), max_ratio)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The unpacked body in pieces of at most 64 KiB; raises `too_large` beyond the limit."""
        return self._pieces(self._max_bytes)

    async def read(self, *, truncate: bool = False, max_bytes: int | None = None) -> HttpResponse:
        """Read the whole body; if it is larger than the limit, raise, or return its beginning if `truncate`."""
        limit = self._max_bytes if max_bytes is None else max_bytes
        if not truncate and limit is not None and self._declared_size() > limit:
            raise too_large_error(limit)
        body = bytearray()
        truncated = False
        async with aclosing(self._pieces(None)) as pieces:
            async for piece in pieces:
                body += piece
                if limit is not None and len(body) > limit:
                    if not truncate:
                        raise too_large_error(limit)
                    del body[limit:]
                    truncated = True
                    break
        head = self.head
        return HttpResponse(head.method, head.url, head.status, head.reason, head.headers, bytes(body), truncated)

    async def aclose(self) -> None:
        """Return the connection to the pool, which keeps it only if the response has been read to its end."""
        await cast(Any, self.response.stream).aclose()

    def _declared_size(self) -> int:
        length = self.head.header("content-length")
        return int(length) if length.isascii() and length.isdigit() and self.head.method != "HEAD" else 0

    async def _pieces(self, max_bytes: int | None) -> AsyncGenerator[bytes, None]:
        """The unpacked body, up to `max_bytes`, with a limit on what comes over the wire as well."""
        received = 0
        size = 0
        count = 0
        with http_errors_as_tool_errors(self.head.host):
            async with aclosing(aiter(cast(Any, self.response.stream))) as raw:
                async for data in raw:
                    received += len(data)
                    count += 1
                    # An endless body may unpack to next to nothing.
                    if self._max_bytes is not None and received > self._max_bytes * 1.01 + MAX_PIECE_BYTES:
                        raise too_large_error(self._max_bytes)
                    # Thousands of chunks may come in one packet, and reading them does not suspend: let others run.
                    if count % 64 == 0:
                        await asyncio.sleep(0)
                    for piece in self._decoder.feed(data):
                        size += len(piece)
                        if max_bytes is not None and size > max_bytes:
                            raise too_large_error(max_bytes)
                        yield piece
            self._decoder.finish()


def build_response_head(
    method: str, target: HttpTarget, response: httpcore2.Response, max_header_bytes: int
) -> ResponseHead:
    """The head of a response; raises if its headers are too large, or if its status is informational (1xx)."""
    size = sum(len(name) + len(value) + 4 for name, value in response.headers)
    if size > max_header_bytes:
        raise ToolError(f"{target.host} answered with {size} bytes of headers; at most {max_header_bytes} are read.")
    if response.status < 200:
        raise ToolError(f"{target.host} answered with status {response.status}, which the request did not ask for.")
    headers = tuple((_decode_header(name), _decode_header(value)) for name, value in response.headers)
    reason = _decode_header(response.extensions.get("reason_phrase", b""))[:200]
    return ResponseHead(method, target.url, response.status, reason, headers)


def too_large_error(limit: int) -> ToolError:
    """The error for a response that is larger than the limit."""
    return ToolError(
        f"The answer is larger than {limit} bytes and was not read any further. Ask for less, or for a part of it.",
        code="too_large",
    )


def _decode_header(raw: bytes) -> str:
    """Header text: UTF-8, which servers send although the standard says Latin-1, or Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
