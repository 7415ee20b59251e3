"""Document: a text file to be edited. Its encoding, its mark and its line ends stay as they are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from surehand.builtin.encoding import HEAD, Encoding, encoding_of
from surehand.builtin.kind import image_type, is_document, kind_of
from surehand.builtin.sizes import size
from surehand.builtin.spot import Spot
from surehand.builtin.trouble import told
from surehand.core.errors import InvalidArguments, ToolError

MOST = 10 << 20
"""Bytes of the largest file that is edited or written."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text, and what takes its place."""

    start: int
    end: int
    content: str


class Document:
    """A file's text with plain newlines, and how it is written in the file."""

    def __init__(self, data: bytes, encoding: Encoding) -> None:
        self.encoding, self._data = encoding, data
        self._raw = encoding.decode(data)
        self.text = self._raw.replace("\r\n", "\n") if "\r" in self._raw else self._raw
        found = re.finditer("\r\n", self._raw) if len(self.text) != len(self._raw) else ()
        self._returns = [match.start() - number for number, match in enumerate(found)]
        """Where in the text the newlines are that are two characters in the file."""

    @classmethod
    def of(cls, spot: Spot, data: bytes) -> Document:
        """A file's content; raises for what is no text."""
        head = data[:HEAD]
        encoding = None if image_type(head) or is_document(head) else encoding_of(head)
        if encoding is None:
            what = f"{kind_of(head, spot.name)}, {size(len(data))}"
            raise InvalidArguments(f"{told(spot)} cannot be edited as text: it is {what}.")
        try:
            return cls(data, encoding)
        except UnicodeDecodeError:
            raise InvalidArguments(f"{told(spot)} cannot be edited: it is no valid {encoding.name}.") from None

    def edited(self, spot: Spot, spans: Iterable[Span]) -> bytes:
        """The file with the spans, which are in order and apart, in place."""
        spans = list(spans)
        grown = len(self._raw) + sum(len(span.content) - (span.end - span.start) for span in spans)
        if grown > MOST:
            raise ToolError(f"{told(spot)} would grow beyond {size(MOST)}. Nothing was changed.", code="too_large")
        pieces: list[bytes | memoryview] = [self.encoding.mark]
        at = 0
        for span in spans:
            pieces += self._kept(at, self._place(span.start)), self._encoded(spot, self._as_here(span))
            at = self._place(span.end)
        return b"".join([*pieces, self._kept(at, len(self._raw))])

    def _kept(self, start: int, end: int) -> bytes | memoryview:
        """A piece of the file as it is; where every character is a byte, it need not be copied."""
        mark = len(self.encoding.mark)
        if len(self._raw) == len(self._data) - mark:
            return memoryview(self._data)[mark + start : mark + end]
        return self.encoding.encode(self._raw[start:end])

    def _place(self, position: int) -> int:
        """Where a position in the text is in the file."""
        return position + bisect_left(self._returns, position)

    def _as_here(self, span: Span) -> str:
        """New lines end as those around them do."""
        if not self._returns or "\n" not in span.content:
            return span.content
        newline = self.text.find("\n", span.start)
        newline = self.text.rfind("\n", 0, span.start) if newline < 0 else newline
        index = bisect_left(self._returns, newline)
        is_return = index < len(self._returns) and self._returns[index] == newline
        return span.content.replace("\n", "\r\n") if is_return else span.content

    def _encoded(self, spot: Spot, text: str) -> bytes:
        try:
            return self.encoding.encode(text)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise InvalidArguments(
                f"{told(spot)} is in {self.encoding.name}, which has no {character!r}. Use other characters."
            ) from None
