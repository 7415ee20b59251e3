"""Answer: the plain answer to a request, read as it comes; whatever is not plain is for somebody else to read."""

from __future__ import annotations

import re

MOST_CHUNKS = 64
"""Chunks of one answer; whoever sends more of them has more to say than this is meant for."""
_HEAD = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.1 200(?: [\t\x20-\x7e]*)?\r\n")
_FIELDS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e]*\r\n)*")
_LENGTH = re.compile(rb"[0-9]{1,12}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_CHUNK_BEGUN = re.compile(rb"(?:[0-9A-Fa-f]{1,8}\r?)?")
_READ = frozenset({b"content-length", b"transfer-encoding", b"content-type", b"connection"})
_STRANGE = frozenset({b"content-encoding", b"upgrade", b"trailer"})
_KINDS = (b"application/json", b"text/event-stream")


class Unusual(Exception):
    """It has to be read with more care."""


class Answer:
    """One answer with status 200, in JSON or as events, whose length is known or which comes in chunks.

    Args:
        most: bytes of it, the head included.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()
        self._at = self._length = 0
        self._chunks: list[bytes] | None = None
        self._headed = False
        self.kind = ""
        """`json` or `events`, once the head has come."""
        self.is_whole = False
        self.keeps = True
        """Whether the connection can be used again after it."""

    @property
    def raw(self) -> bytes:
        """All that has come of it, as it came."""
        return bytes(self._data)

    @property
    def body(self) -> bytes:
        """What has come of the body; of one whose length is known all or nothing."""
        if self._chunks is not None:
            return b"".join(self._chunks)
        return bytes(self._data[self._at : self._at + self._length]) if self.is_whole else b""

    @property
    def pieces(self) -> int:
        """In how many the body has come so far."""
        return int(self.is_whole) if self._chunks is None else len(self._chunks)

    def feed(self, data: bytes) -> None:
        """More has come. Raises `Unusual`."""
        self._data += data
        if len(self._data) > self._most:
            raise Unusual
        if not self._headed and not self._head():
            return
        if self._chunks is not None:
            self._take_chunks(self._chunks)
        else:
            self._end(self._at + self._length)

    def _end(self, at: int) -> None:
        """Whether it ends there; what comes after that was not asked for."""
        if len(self._data) >= at:
            self.is_whole = True
            self.keeps = self.keeps and len(self._data) == at

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n", 0, _HEAD)
        if end < 0:
            if len(self._data) > _HEAD:
                raise Unusual
            return False
        head = bytes(self._data[: end + 2])
        status = _STATUS.match(head)
        if status is None or _FIELDS.fullmatch(head, status.end()) is None:
            raise Unusual
        self._at, self._headed = end + 4, True
        self._read(_fields(head[status.end() :]))
        return True

    def _read(self, fields: dict[bytes, bytes]) -> None:
        kind, length = fields.get(b"content-type", b"").lower(), fields.get(b"content-length")
        if not kind.startswith(_KINDS):
            raise Unusual
        self.kind = "json" if kind.startswith(_KINDS[0]) else "events"
        if (connection := fields.get(b"connection", b"keep-alive").lower()) not in (b"keep-alive", b"close"):
            raise Unusual
        self.keeps = connection == b"keep-alive"
        if (coding := fields.get(b"transfer-encoding")) is not None:
            if coding.lower() != b"chunked" or length is not None:
                raise Unusual
            self._chunks = []
        elif length is None or _LENGTH.fullmatch(length) is None or self._at + int(length) > self._most:
            raise Unusual
        else:
            self._length = int(length)

    def _take_chunks(self, chunks: list[bytes]) -> None:
        data = self._data
        while not self.is_whole:
            if (head := _CHUNK.match(data, self._at)) is None:
                if _CHUNK_BEGUN.fullmatch(data, self._at) is None:
                    raise Unusual
                return
            start = head.end()
            end = start + int(head[1], 16)
            if len(data) < end + 2:
                if end > self._most:
                    raise Unusual
                return
            if data[end : end + 2] != b"\r\n" or len(chunks) == MOST_CHUNKS:
                raise Unusual
            self._at = end + 2
            if end == start:
                self._end(self._at)
            else:
                chunks.append(bytes(data[start:end]))


def _fields(head: bytes) -> dict[bytes, bytes]:
    """Those that say how the body is to be read, each of which is there once."""
    found: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in _STRANGE or name in found:
            raise Unusual
        if name in _READ:
            found[name] = value.strip(b" \t")
    return found
