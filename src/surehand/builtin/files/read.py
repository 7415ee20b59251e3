"""The tools that read a file: `read` gives a page of numbered lines or an image, `read_file` the content as it is."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from surehand.builtin.files.file_description import describe_file_type, detect_image_type, format_byte_count, is_pdf
from surehand.builtin.files.line_reader import LinePage, read_page
from surehand.builtin.files.path_arguments import FilePath, ToolNaming, path_tool_options
from surehand.builtin.files.text_encoding import HEAD_BYTES, TextEncoding, detect_encoding, encoding_from_name
from surehand.core.content import Image, Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

MAX_PAGE_LINES = 5000
DEFAULT_PAGE_LINES = 2000
MAX_LINE_LENGTH = 2000
MAX_PAGE_BYTES = 88_000
"""A page of numbered lines ends after this many bytes, so that it fits below the limit of one tool output."""
MAX_WHOLE_FILE_BYTES = 1 << 20
"""`read_file` returns at most this much in one call."""
MAX_IMAGE_BYTES = 3_750_000
"""Model APIs accept images of five megabytes of base64."""
_NUL = "\0"
_NUL_SUBSTITUTE = "\ufffd"  # some model APIs refuse a NUL


def read_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`read` and `read_file`."""
    short_example = {"file_path": "src/main.py"}
    long_example = {"path": "src/main.py"}

    @tool(**path_tool_options(workspace, "read", "file_path", listed=naming == "short", examples=[short_example]))
    def read(
        file_path: FilePath,
        ctx: Context,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
        limit: Annotated[
            int, Field(ge=1, description=f"Lines to read, {MAX_PAGE_LINES} at most.")
        ] = DEFAULT_PAGE_LINES,
    ) -> Done:
        """Read a text file with line numbers, or look at an image. Long files come in pages: go on with `offset`."""
        path = workspace.resolve(file_path)
        with path.open_reader() as file:
            head = file.read(HEAD_BYTES)
            mime_type = detect_image_type(head)
            if mime_type is not None:
                return _image_outcome(path, file, mime_type)
            encoding = _detect_text_encoding(path, file, head)
            page = read_page(
                file,
                encoding,
                offset,
                min(limit, MAX_PAGE_LINES),
                max_line_length=MAX_LINE_LENGTH,
                max_bytes=MAX_PAGE_BYTES,
                is_cancelled=lambda: ctx.cancelled,
            )
        return _numbered_page_outcome(path, page, encoding)

    @tool(**path_tool_options(workspace, "read", "path", listed=naming == "long", examples=[long_example]))
    def read_file(
        path: FilePath,
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, or base64; found out if left out.")] = None,
        offset: Annotated[int | None, Field(ge=0, description="First line of a page, counted from 0.")] = None,
        limit: Annotated[int | None, Field(ge=1, description="Lines of a page.")] = None,
    ) -> dict[str, Any]:
        """Read a file's content as it is. Above 1 MiB, read pages with `offset` and `limit`."""
        target = workspace.resolve(path)
        with target.open_reader() as file:
            if encoding is not None and encoding.lower() == "base64":
                return _base64_content(target, file)
            if encoding is None:
                text_encoding = _detect_text_encoding(target, file, file.read(HEAD_BYTES))
            else:
                text_encoding = _drop_absent_byte_order_mark(file, encoding_from_name(encoding))
            if offset is None and limit is None:
                return _text_content(target, file, text_encoding, strict=encoding is not None)
            max_lines = limit or DEFAULT_PAGE_LINES
            page = read_page(
                file,
                text_encoding,
                (offset or 0) + 1,
                max_lines,
                max_line_length=MAX_WHOLE_FILE_BYTES,
                max_bytes=MAX_WHOLE_FILE_BYTES,
                is_cancelled=lambda: ctx.cancelled,
            )
            return _page_content(target, page, text_encoding, max_lines, _file_size(file))

    return [read, read_file]


def _file_size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _detect_text_encoding(path: WorkspacePath, file: BinaryIO, head: bytes) -> TextEncoding:
    encoding = None if is_pdf(head) else detect_encoding(head)
    if encoding is None:
        description = f"it is {describe_file_type(head, path.name)}, {format_byte_count(_file_size(file))}"
        raise InvalidArguments(f"{path_for_message(path)} cannot be shown as text: {description}.")
    return encoding


# read


def _numbered_page_outcome(path: WorkspacePath, page: LinePage, encoding: TextEncoding) -> Done:
    if page.first_line > 1 and not page.lines:
        line_count = "1 line" if page.total_lines == 1 else f"{page.total_lines:,} lines"
        problem = f"Line {page.first_line:,} is beyond the end of {path_for_message(path)}, which has {line_count}."
        raise InvalidArguments(f"{problem} Give a smaller offset.")
    metadata = {
        "path": path.display_path,
        "startLine": page.first_line,
        "endLine": page.last_line,
        "totalLines": page.total_lines,
        "truncated": page.is_truncated,
    }
    if encoding.name != "utf-8":
        metadata["encoding"] = encoding.name
    text = _render_numbered_lines(page) or "(the file is empty)"
    return Done(text, title=f"Read {path.display_path}", metadata=metadata)


def _render_numbered_lines(page: LinePage) -> str:
    cut_note = f" [cut: the line is longer than {MAX_LINE_LENGTH:,} characters]"
    rendered: list[str] = []
    for number, line in enumerate(page.lines, page.first_line):
        text = line.text_without_newline.replace(_NUL, _NUL_SUBSTITUTE)
        rendered.append(f"{number:>6}\t{text}{cut_note if line.is_cut else ''}")
    if page.has_more:
        total = "" if page.total_lines is None else f" of {page.total_lines:,}"
        uncounted = "; more follow, not counted in so large a file" if page.total_lines is None else ""
        line_range = f"lines {page.first_line:,} to {page.last_line:,}{total}{uncounted}"
        rendered.append(f"\n({line_range}. Go on with offset={page.last_line + 1}.)")
    return "\n".join(rendered)


def _image_outcome(path: WorkspacePath, file: BinaryIO, mime_type: str) -> Done:
    length = _file_size(file)
    size = format_byte_count(length)
    if length > MAX_IMAGE_BYTES:
        limit = format_byte_count(MAX_IMAGE_BYTES)
        problem = f"{path_for_message(path)} is an image of {size}; at most {limit} can be shown."
        raise ToolError(problem, code="too_large")
    file.seek(0)
    data = b64encode(file.read(MAX_IMAGE_BYTES)).decode()
    metadata = {"path": path.display_path, "mimeType": mime_type, "size": length}
    content = (Text(f"{path.display_path}: {mime_type}, {size}"), Image(data, mime_type))
    return Done(metadata, content=content, title=f"Read {path.display_path}", metadata=metadata)


# read_file


def _drop_absent_byte_order_mark(file: BinaryIO, encoding: TextEncoding) -> TextEncoding:
    """The requested encoding, without its byte order mark if the file does not begin with it."""
    mark = encoding.byte_order_mark
    return encoding if file.read(len(mark)) == mark else TextEncoding(encoding.codec)


def _read_whole_file(path: WorkspacePath, file: BinaryIO) -> bytes:
    file.seek(0)
    data = file.read(MAX_WHOLE_FILE_BYTES + 1)
    if len(data) > MAX_WHOLE_FILE_BYTES:
        size = format_byte_count(max(_file_size(file), len(data)))
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
