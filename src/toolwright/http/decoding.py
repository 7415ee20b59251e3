"""Decoding: a compressed body is unpacked piece by piece, and never further than somebody wants to read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

from toolwright.core.errors import ToolError, Unavailable

OFFERED = "gzip, deflate"
PIECE = 65_536
UNSUSPICIOUS = 1 << 20
"""So much may come out of however little: a short page of blanks is no attack."""


class Decoder(Protocol):
    """Turns what comes over the wire into the body, in bounded pieces."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes stand for."""
        ...

    def finish(self) -> None:
        """Nothing more will come: raises where more was expected."""
        ...


class Plain:
    """A body that is sent as it is."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The same bytes."""
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]

    def finish(self) -> None:
        """The connection itself knows where such a body ends."""


class Inflating:
    """gzip or deflate; a body that swells beyond `max_ratio` of what was sent is a bomb."""

    def __init__(self, encoding: str, max_ratio: float) -> None:
        self._encoding, self._max_ratio = encoding, max_ratio
        self._inflate = zlib.decompressobj(wbits=31 if encoding == "gzip" else 15)
        self._taken = self._given = 0
        self._start: bytes | None = b"" if encoding == "deflate" else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Unpack, at most a piece at a time."""
        self._taken += len(data)
        data, more = self._begun(data), False
        while data or more:
            if self._inflate.eof:
                if self._encoding != "gzip" or not data.startswith(b"\x1f"):
                    return  # padding, which others do not read either
                self._inflate = zlib.decompressobj(wbits=31)  # gzip files may be put one after another
            piece = self._piece(data)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            more = len(piece) == PIECE  # the rest of it may wait inside, with nothing left to feed
            if piece:
                yield piece

    def _begun(self, data: bytes) -> bytes:
        """Some servers leave the wrapper of deflate away, which its first two bytes show."""
        if self._start is None:
            return data
        data = self._start + data
        if len(data) < 2:
            self._start = data
            return b""
        self._start = None
        if not _has_zlib_header(data):
            self._inflate = zlib.decompressobj(wbits=-15)
        return data

    def _piece(self, data: bytes) -> bytes:
        try:
            piece = self._inflate.decompress(data, PIECE)
        except zlib.error as error:
            raise ToolError(f"The answer claims to be {self._encoding}, and is not.") from error
        self._given += len(piece)
        if self._given > max(UNSUSPICIOUS, self._taken * self._max_ratio):
            raise ToolError(
                f"The answer unpacks to more than {self._max_ratio:g} times its size and was not read any further.",
                code="too_large",
            )
        return piece

    def finish(self) -> None:
        """A body that was cut off in the middle must not look whole."""
        if self._taken and not self._inflate.eof:
            raise Unavailable("The answer broke off in the middle. Try again.")


def decoder_of(encodings: str, max_ratio: float) -> Decoder:
    """The decoder for a Content-Encoding; raises for what was not offered."""
    named = [word.strip().lower().removeprefix("x-") for word in encodings.split(",")]
    named = [word for word in named if word not in ("", "identity")]
    if not named:
        return Plain()
    if len(named) > 1 or named[0] not in ("gzip", "deflate"):
        shown = ", ".join(named)[:60]
        raise ToolError(f"The answer is encoded as {shown!r}, which was not asked for and is not read.")
    return Inflating(named[0], max_ratio)


def _has_zlib_header(data: bytes) -> bool:
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
