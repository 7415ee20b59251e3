"""The content of a file as it is: its encoding, its text, and the text of a PDF.

The data of `read_file`; `read` shares the detection of encodings and the text of PDFs.
"""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import Any, BinaryIO

from surehand.builtin.file_description import describe_file_type, format_byte_count, is_pdf
from surehand.builtin.files.line_reader import LinePage, page_of_lines, read_page
from surehand.builtin.files.text_encoding import HEAD_BYTES, TextEncoding, detect_encoding, encoding_from_name
from surehand.builtin.pdf_text import extract_pdf_text_in_thread
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import strip_hidden
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath

DEFAULT_PAGE_LINES = 2000
MAX_WHOLE_FILE_BYTES = 1 << 20
"""`read_file` returns at most this much in one call."""
MAX_DOCUMENT_BYTES = 50 << 20
"""Largest PDF or notebook."""


def file_content(
    path: WorkspacePath,
    file: BinaryIO,
    encoding: str | None,
    offset: int | None,
    limit: int | None,
    is_cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """The content of a file for `read_file`, all of it or a page."""
    if encoding is not None and encoding.lower() == "base64":
        return _base64_content(path, file)
    is_whole = offset is None and limit is None
    first_line = (offset or 0) + 1
    max_lines = limit or DEFAULT_PAGE_LINES
    if encoding is None:
        head = file.read(HEAD_BYTES)
        if is_pdf(head):
            return _pdf_content(path, file, first_line, sys.maxsize if is_whole else max_lines)
        text_encoding = detect_text_encoding(path, file, head)
    else:
        text_encoding = _drop_absent_byte_order_mark(file, encoding_from_name(encoding))
    if is_whole:
        return _text_content(path, file, text_encoding, strict=encoding is not None)
    page = read_page(
        file,
        text_encoding,
        first_line,
        max_lines,
        max_line_length=MAX_WHOLE_FILE_BYTES,
        max_bytes=MAX_WHOLE_FILE_BYTES,
        is_cancelled=is_cancelled,
    )
    return _page_content(path, page, text_encoding, max_lines, file_size(file))


def file_size(file: BinaryIO) -> int:
    """The size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def detect_text_encoding(path: WorkspacePath, file: BinaryIO, head: bytes) -> TextEncoding:
    """The encoding of a text file; raises `InvalidArguments` for a binary file."""
    encoding = detect_encoding(head)
    if encoding is None:
        description = f"it is {describe_file_type(head, path.name)}, {format_byte_count(file_size(file))}"
        raise InvalidArguments(f"{path_for_message(path)} cannot be shown as text: {description}.")
    return encoding


def read_document(path: WorkspacePath, file: BinaryIO) -> bytes:
    """The whole content of a PDF or a notebook."""
    file.seek(0)
    data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        size = format_byte_count(max(file_size(file), len(data)))
        limit = format_byte_count(MAX_DOCUMENT_BYTES)
        raise ToolError(f"{path_for_message(path)} has {size}; PDFs of up to {limit} are read.", code="too_large")
    return data


def pdf_lines(path: WorkspacePath, file: BinaryIO) -> tuple[list[str], int]:
    """The lines of a PDF's text, and the number of its pages."""
    pdf = extract_pdf_text_in_thread(read_document(path, file), path_for_message(path), extra="files")
    title = [f"Title: {pdf.title}", ""] if pdf.title else []
    return [*title, *strip_hidden(pdf.render()).split("\n")], pdf.page_count


def _pdf_content(path: WorkspacePath, file: BinaryIO, first_line: int, max_lines: int) -> dict[str, Any]:
    lines, page_count = pdf_lines(path, file)
    page = page_of_lines(
        lines, first_line, max_lines, max_line_length=MAX_WHOLE_FILE_BYTES, max_bytes=MAX_WHOLE_FILE_BYTES
    )
    return {
        "content": "\n".join(line.text for line in page.lines),
        "size": file_size(file),
        "totalLines": page.total_lines,
        "path": path.display_path,
        "encoding": "pdf",
        "pages": page_count,
        "offset": page.first_line - 1,
        "truncated": page.is_truncated,
    }


def _drop_absent_byte_order_mark(file: BinaryIO, encoding: TextEncoding) -> TextEncoding:
    """The requested encoding, without its byte order mark if the file does not begin with it."""
    mark = encoding.byte_order_mark
    return encoding if file.read(len(mark)) == mark else TextEncoding(encoding.codec)


def _read_whole_file(path: WorkspacePath, file: BinaryIO) -> bytes:
    file.seek(0)
    data = file.read(MAX_WHOLE_FILE_BYTES + 1)
    if len(data) > MAX_WHOLE_FILE_BYTES:
        size = format_byte_count(max(file_size(file), len(data)))
        limit = format_byte_count(MAX_WHOLE_FILE_BYTES)
        problem = f"{path_for_message(path)} has {size}, more than the {limit} that are read at once."
        raise ToolError(f"{problem} Read it in pages, with offset=0 and limit={DEFAULT_PAGE_LINES}.", code="too_large")
    return data


def _base64_content(path: WorkspacePath, file: BinaryIO) -> dict[str, Any]:
    data = _read_whole_file(path, file)
    return {"content": b64encode(data).decode(), "size": len(data), "path": path.display_path, "encoding": "base64"}


def _text_content(path: WorkspacePath, file: BinaryIO, encoding: TextEncoding, *, strict: bool) -> dict[str, Any]:
    data = _read_whole_file(path, file)
    mark_length = len(encoding.byte_order_mark)
    try:
        content = data[mark_length:].decode(encoding.codec, "strict" if strict else "replace")
    except UnicodeDecodeError as error:
        position = error.start + mark_length
        problem = f"{path_for_message(path)} is not {encoding.codec}: its byte {position:,} does not fit."
        raise InvalidArguments(f"{problem} Leave the encoding out.") from None
    has_partial_line = content[-1:] not in ("", "\n")
    return {
        "content": content,
        "size": len(data),
        "totalLines": content.count("\n") + has_partial_line,
        "path": path.display_path,
        "encoding": encoding.name,
    }


def _page_content(
    path: WorkspacePath, page: LinePage, encoding: TextEncoding, limit: int, file_size: int
) -> dict[str, Any]:
    return {
        "content": "".join(line.text for line in page.lines),
        "size": file_size,
        "totalLines": page.total_lines,
        "path": path.display_path,
        "encoding": encoding.name,
        "offset": page.first_line - 1,
        "limit": limit,
        "truncated": page.is_truncated,
    }
