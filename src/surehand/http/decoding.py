"""Unpacks gzip and deflate bodies piece by piece, within limits: a small response could unpack to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from surehand.core.errors import ToolError, Unavailable

ACCEPT_ENCODING = "gzip, deflate"
MAX_PIECE_BYTES = 65_536
MIN_MEMBER_BYTES = 256
"""Received bytes for each further file of a gzip body that consists of several. Starting on a file takes as long as
unpacking a kilobyte, and one without content has 20 bytes."""
MAX_SMALL_MEMBERS = 256
"""Files of a gzip body of any size."""
MIN_BOMB_BYTES = 1 << 20
"""The ratio is not checked below this size: a short page of blanks has a high ratio, too."""


class Decoder(Protocol):
    """Turns the bytes of a response into its body, in pieces of at most `MAX_PIECE_BYTES`."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The next pieces of the body."""
        ...

    def finish(self) -> None:
        """Raise if the body is incomplete; called at its end."""
        ...


class IdentityDecoder:
    """A body that is not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The same bytes, in pieces."""
        for start in range(0, len(data), MAX_PIECE_BYTES):
            yield data[start : start + MAX_PIECE_BYTES]

    def finish(self) -> None:
        """Do nothing: HTTP itself says where such a body ends."""


class InflatingDecoder:
    """gzip or deflate; refuses a body that unpacks to more than `max_ratio` times its size."""

    def __init__(self, encoding: str, max_ratio: float) -> None:
        self._encoding = encoding
        self._max_ratio = max_ratio
        # zlib's window bits also select the format: 31 is gzip, 15 zlib, and -15 deflate without any header.
        self._decompressor = zlib.decompressobj(wbits=31 if encoding == "gzip" else 15)
        self._members = 0
        self._received_bytes = 0
        self._unpacked_bytes = 0
        self._undecided_bytes: bytes | None = b"" if encoding == "deflate" else None
        """The first bytes of a deflate body, until there are enough to tell whether it has a zlib header."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Unpack one piece after another."""
        self._received_bytes += len(data)
        data = self._choose_deflate_format(data)
        has_more = False
        while data or has_more:
            if self._decompressor.eof:
                if self._encoding != "gzip" or not data.startswith(b"\x1f"):
                    return  # padding, which other clients ignore too
                self._decompressor = self._next_gzip_member()
            piece = self._unpack_piece(data)
            data = self._decompressor.unconsumed_tail or self._decompressor.unused_data
            has_more = len(piece) == MAX_PIECE_BYTES  # zlib may hold more output although all input is consumed
            if piece:
                yield piece

    def _next_gzip_member(self) -> Any:
        """A decompressor for the next file: a gzip body may consist of several."""
        self._members += 1
        if self._members > MAX_SMALL_MEMBERS + self._received_bytes / MIN_MEMBER_BYTES:
            raise ToolError(
                f"The answer consists of {self._members:,} gzip files or more, and was not read any further.",
                code="too_large",
            )
        return zlib.decompressobj(wbits=31)

    def _choose_deflate_format(self, data: bytes) -> bytes:
        """Choose zlib or raw deflate by the first two bytes: some servers leave the zlib header away."""
        if self._undecided_bytes is None:
            return data
        data = self._undecided_bytes + data
        if len(data) < 2:
            self._undecided_bytes = data
            return b""
        self._undecided_bytes = None
        if not _has_zlib_header(data):
            self._decompressor = zlib.decompressobj(wbits=-15)
        return data

    def _unpack_piece(self, data: bytes) -> bytes:
        try:
            piece = self._decompressor.decompress(data, MAX_PIECE_BYTES)
        except zlib.error as error:
            raise ToolError(f"The answer claims to be {self._encoding}, and is not.") from error
        self._unpacked_bytes += len(piece)
        if self._unpacked_bytes > max(MIN_BOMB_BYTES, self._received_bytes * self._max_ratio):
            raise ToolError(
                f"The answer unpacks to more than {self._max_ratio:g} times its size and was not read any further.",
                code="too_large",
            )
        return piece

    def finish(self) -> None:
        """Raise if the body was cut off: it must not look complete."""
        if self._received_bytes and not self._decompressor.eof:
            raise Unavailable("The answer broke off in the middle. Try again.")


def decoder_for(encodings: str, max_ratio: float) -> Decoder:
    """The decoder for a Content-Encoding header; raises for an encoding that the request did not accept."""
    named = [word.strip().lower().removeprefix("x-") for word in encodings.split(",")]
    named = [word for word in named if word not in ("", "identity")]
    if not named:
        return IdentityDecoder()
    if len(named) > 1 or named[0] not in ("gzip", "deflate"):
        encoding = ", ".join(named)[:60]
        raise ToolError(f"The answer is encoded as {encoding!r}, which was not asked for and is not read.")
    return InflatingDecoder(named[0], max_ratio)


def _has_zlib_header(data: bytes) -> bool:
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
