"""Document: a text file to be edited. Its encoding, its mark and its line ends stay as they are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from surehand.builtin.files.file_description import describe_file_type, detect_image_type, format_byte_count, is_pdf
from surehand.builtin.files.text_encoding import HEAD_BYTES, TextEncoding, detect_encoding
from surehand.core.errors import InvalidArguments, ToolError
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath

MAX_EDITABLE_BYTES = 10 << 20
"""Bytes of the largest file that is edited or written."""


@dataclass(frozen=True, slots=True)
class TextReplacement:
    """A piece of a text, and what takes its place."""

    start: int
    end: int
    content: str


class TextDocument:
    """A file's text with plain newlines, and how it is written in the file."""

    def __init__(self, data: bytes, encoding: TextEncoding) -> None:
        self.encoding, self._data = encoding, data
        self._raw_text = encoding.decode(data)
        self.text = self._raw_text.replace("\r\n", "\n") if "\r" in self._raw_text else self._raw_text
        found = re.finditer("\r\n", self._raw_text) if len(self.text) != len(self._raw_text) else ()
        self._crlf_positions = [match.start() - number for number, match in enumerate(found)]
        """Where in the text the newlines are that are two characters in the file."""

    @classmethod
    def from_bytes(cls, path: WorkspacePath, data: bytes) -> TextDocument:
        """A file's content; raises for what is no text."""
        head = data[:HEAD_BYTES]
        encoding = None if detect_image_type(head) or is_pdf(head) else detect_encoding(head)
        if encoding is None:
            what = f"{describe_file_type(head, path.name)}, {format_byte_count(len(data))}"
            raise InvalidArguments(f"{path_for_message(path)} cannot be edited as text: it is {what}.")
        try:
            return cls(data, encoding)
        except UnicodeDecodeError:
            raise InvalidArguments(
                f"{path_for_message(path)} cannot be edited: it is no valid {encoding.name}."
            ) from None

    def apply(self, path: WorkspacePath, replacements: Iterable[TextReplacement]) -> bytes:
        """The file with the spans, which are in order and apart, in place."""
        replacements = list(replacements)
        grown = len(self._raw_text) + sum(len(span.content) - (span.end - span.start) for span in replacements)
        if grown > MAX_EDITABLE_BYTES:
            raise ToolError(
                f"{path_for_message(path)} would grow beyond {format_byte_count(MAX_EDITABLE_BYTES)}. Nothing was changed.",
                code="too_large",
            )
        pieces: list[bytes | memoryview] = [self.encoding.byte_order_mark]
        at = 0
        for span in replacements:
            pieces += (
                self._original_bytes(at, self._raw_position(span.start)),
                self._encode(path, self._with_local_line_ends(span)),
            )
            at = self._raw_position(span.end)
        return b"".join([*pieces, self._original_bytes(at, len(self._raw_text))])

    def _original_bytes(self, start: int, end: int) -> bytes | memoryview:
        """A piece of the file as it is; where every character is a byte, it need not be copied."""
        mark = len(self.encoding.byte_order_mark)
        if len(self._raw_text) == len(self._data) - mark:
            return memoryview(self._data)[mark + start : mark + end]
        return self.encoding.encode(self._raw_text[start:end])

    def _raw_position(self, position: int) -> int:
        """Where a position in the text is in the file."""
        return position + bisect_left(self._crlf_positions, position)

    def _with_local_line_ends(self, replacement: TextReplacement) -> str:
        """New lines end as those around them do."""
        if not self._crlf_positions or "\n" not in replacement.content:
            return replacement.content
        newline = self.text.find("\n", replacement.start)
        newline = self.text.rfind("\n", 0, replacement.start) if newline < 0 else newline
        index = bisect_left(self._crlf_positions, newline)
        is_return = index < len(self._crlf_positions) and self._crlf_positions[index] == newline
        return replacement.content.replace("\n", "\r\n") if is_return else replacement.content

    def _encode(self, path: WorkspacePath, text: str) -> bytes:
        try:
            return self.encoding.encode(text)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise InvalidArguments(
                f"{path_for_message(path)} is in {self.encoding.name}, which has no {character!r}. Use other characters."
            ) from None
