"""TextDocument: a text file for editing, which keeps its encoding, byte order mark and line ends. Used by `edit`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from surehand.builtin.file_description import describe_file_type, detect_image_type, format_byte_count, is_pdf
from surehand.builtin.files.text_encoding import HEAD_BYTES, TextEncoding, detect_encoding
from surehand.core.errors import InvalidArguments, ToolError
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath

MAX_EDITABLE_BYTES = 10 << 20
"""Largest file that can be edited or written."""


@dataclass(frozen=True, slots=True)
class TextReplacement:
    """A range of a text, and the content that replaces it."""

    start: int
    end: int
    content: str


class TextDocument:
    """A file's text with `\\n` line ends, and how to write it back with the line ends of the file."""

    def __init__(self, data: bytes, encoding: TextEncoding) -> None:
        self.encoding = encoding
        self._data = data
        # Kept beside `text`: what an edit does not touch is written back as it was, mixed line ends included.
        self._raw_text = encoding.decode(data)
        self.text = self._raw_text.replace("\r\n", "\n") if "\r" in self._raw_text else self._raw_text
        matches = re.finditer("\r\n", self._raw_text) if len(self.text) != len(self._raw_text) else ()
        self._crlf_positions = [match.start() - index for index, match in enumerate(matches)]
        """Positions in `text` of the newlines that are `\\r\\n` in the file, in order."""

    @classmethod
    def from_bytes(cls, path: WorkspacePath, data: bytes) -> TextDocument:
        """Decode a file's content; raise `InvalidArguments` if it is not text."""
        head = data[:HEAD_BYTES]
        encoding = None if detect_image_type(head) or is_pdf(head) else detect_encoding(head)
        if encoding is None:
            description = f"{describe_file_type(head, path.name)}, {format_byte_count(len(data))}"
            raise InvalidArguments(f"{path_for_message(path)} cannot be edited as text: it is {description}.")
        try:
            return cls(data, encoding)
        except UnicodeDecodeError:
            problem = f"{path_for_message(path)} cannot be edited: it is no valid {encoding.name}."
            raise InvalidArguments(problem) from None

    def apply(self, path: WorkspacePath, replacements: Iterable[TextReplacement]) -> bytes:
        """The file's new bytes; the replacements are in order and do not overlap."""
        replacements = list(replacements)
        growth = sum(len(each.content) - (each.end - each.start) for each in replacements)
        if len(self._raw_text) + growth > MAX_EDITABLE_BYTES:
            limit = format_byte_count(MAX_EDITABLE_BYTES)
            problem = f"{path_for_message(path)} would grow beyond {limit}. Nothing was changed."
            raise ToolError(problem, code="too_large")
        pieces: list[bytes | memoryview] = [self.encoding.byte_order_mark]
        position = 0
        for replacement in replacements:
            pieces.append(self._original_bytes(position, self._raw_position(replacement.start)))
            pieces.append(self._encode(path, self._with_local_line_ends(replacement)))
            position = self._raw_position(replacement.end)
        pieces.append(self._original_bytes(position, len(self._raw_text)))
        return b"".join(pieces)

    def _original_bytes(self, start: int, end: int) -> bytes | memoryview:
        """An unchanged piece of the file."""
        mark_length = len(self.encoding.byte_order_mark)
        # As many characters as bytes: positions are the same, and a view avoids copying a large file.
        if len(self._raw_text) == len(self._data) - mark_length:
            return memoryview(self._data)[mark_length + start : mark_length + end]
        return self.encoding.encode(self._raw_text[start:end])

    def _raw_position(self, position: int) -> int:
        """The position in the file's raw text for a position in `text`."""
        return position + bisect_left(self._crlf_positions, position)

    def _with_local_line_ends(self, replacement: TextReplacement) -> str:
        """The new content with the line ends that the lines around it have."""
        if not self._crlf_positions or "\n" not in replacement.content:
            return replacement.content
        newline = self.text.find("\n", replacement.start)
        if newline < 0:
            newline = self.text.rfind("\n", 0, replacement.start)
        index = bisect_left(self._crlf_positions, newline)
        is_crlf = index < len(self._crlf_positions) and self._crlf_positions[index] == newline
        return replacement.content.replace("\n", "\r\n") if is_crlf else replacement.content

    def _encode(self, path: WorkspacePath, text: str) -> bytes:
        try:
            return self.encoding.encode(text)
        except UnicodeEncodeError as error:
            problem = f"{path_for_message(path)} is in {self.encoding.name}, which has no {text[error.start]!r}."
            raise InvalidArguments(f"{problem} Use other characters.") from None
