"""Reading files: a page of numbered lines (`read`), or the content as it is (`read_file`)."""

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

MAX_PAGE_LINES, DEFAULT_PAGE_LINES, MAX_LINE_LENGTH = 5000, 2000, 2000
MAX_PAGE_BYTES = 88_000
"""Bytes after which a page of numbered lines ends, so that it fits into what a model is shown at once."""
MAX_WHOLE_FILE_BYTES = 1 << 20
"""Bytes that `read_file` gives at once."""
_NUL, _NUL_SUBSTITUTE = "\0", "\ufffd"  # not every model API takes a NUL
MAX_IMAGE_BYTES = 3_750_000
"""Bytes of the largest image; model APIs take five megabytes of base64."""


def read_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`read` and `read_file`."""

    @tool(
        **path_tool_options(
            workspace, "read", "file_path", listed=naming == "short", examples=[{"file_path": "src/main.py"}]
        )
    )
    def read(
        file_path: FilePath,
        ctx: Context,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
        limit: Annotated[
            int, Field(ge=1, description=f"Lines to read, {MAX_PAGE_LINES} at most.")
        ] = DEFAULT_PAGE_LINES,
    ) -> Done:
        """Read a text file with line numbers, or look at an image. Long files come in pages: go on with `offset`."""
        spot, limit = workspace.resolve(file_path), min(limit, MAX_PAGE_LINES)
        with spot.open_reader() as file:
            head = file.read(HEAD_BYTES)
            if (mime := detect_image_type(head)) is not None:
                return _image_outcome(spot, file, mime)
            encoding = _detect_text_encoding(spot, file, head)
            page = read_page(
                file,
                encoding,
                offset,
                limit,
                max_line_length=MAX_LINE_LENGTH,
                max_bytes=MAX_PAGE_BYTES,
                is_cancelled=lambda: ctx.cancelled,
            )
        return _numbered_page_outcome(spot, page, encoding)

    @tool(**path_tool_options(workspace, "read", "path", listed=naming == "long", examples=[{"path": "src/main.py"}]))
    def read_file(
        path: FilePath,
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, or base64; found out if left out.")] = None,
        offset: Annotated[int | None, Field(ge=0, description="First line of a page, counted from 0.")] = None,
        limit: Annotated[int | None, Field(ge=1, description="Lines of a page.")] = None,
    ) -> dict[str, Any]:
        """Read a file's content as it is. Above 1 MiB, read pages with `offset` and `limit`."""
        spot = workspace.resolve(path)
        with spot.open_reader() as file:
            if encoding is not None and encoding.lower() == "base64":
                return _base64_content(spot, file)
            known = (
                _detect_text_encoding(spot, file, file.read(HEAD_BYTES))
                if encoding is None
                else _drop_absent_byte_order_mark(file, encoding_from_name(encoding))
            )
            if offset is None and limit is None:
                return _text_content(spot, file, known, strict=encoding is not None)
            first, most = (offset or 0) + 1, limit or DEFAULT_PAGE_LINES
            page = read_page(
                file,
                known,
                first,
                most,
                max_line_length=MAX_WHOLE_FILE_BYTES,
                max_bytes=MAX_WHOLE_FILE_BYTES,
                is_cancelled=lambda: ctx.cancelled,
            )
            return _page_content(spot, page, known, most, _file_size(file))

    return [read, read_file]


def _file_size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _detect_text_encoding(path: WorkspacePath, file: BinaryIO, head: bytes) -> TextEncoding:
    encoding = None if is_pdf(head) else detect_encoding(head)
    if encoding is None:
        what = f"it is {describe_file_type(head, path.name)}, {format_byte_count(_file_size(file))}"
        raise InvalidArguments(f"{path_for_message(path)} cannot be shown as text: {what}.")
    return encoding


# read


def _numbered_page_outcome(path: WorkspacePath, page: LinePage, encoding: TextEncoding) -> Done:
    if page.first_line > 1 and not page.lines:
        has = "1 line" if page.total_lines == 1 else f"{page.total_lines:,} lines"
        raise InvalidArguments(
            f"Line {page.first_line:,} is beyond the end of {path_for_message(path)}, which has {has}. Give a smaller offset."
        )
    where = {
        "path": path.display_path,
        "startLine": page.first_line,
        "endLine": page.last_line,
        "totalLines": page.total_lines,
    }
    metadata = {**where, "truncated": page.is_truncated}
    if encoding.name != "utf-8":
        metadata["encoding"] = encoding.name
    return Done(
        _render_numbered_lines(page) or "(the file is empty)", title=f"Read {path.display_path}", metadata=metadata
    )


def _render_numbered_lines(page: LinePage) -> str:
    cut = f" [cut: the line is longer than {MAX_LINE_LENGTH:,} characters]"
    numbered = enumerate(page.lines, page.first_line)
    shown = [
        f"{number:>6}\t{line.text_without_newline.replace(_NUL, _NUL_SUBSTITUTE)}{cut if line.is_cut else ''}"
        for number, line in numbered
    ]
    if page.has_more:
        of = "" if page.total_lines is None else f" of {page.total_lines:,}"
        uncounted = "; more follow, not counted in so large a file" if page.total_lines is None else ""
        shown.append(
            f"\n(lines {page.first_line:,} to {page.last_line:,}{of}{uncounted}. Go on with offset={page.last_line + 1}.)"
        )
    return "\n".join(shown)


def _image_outcome(path: WorkspacePath, file: BinaryIO, mime_type: str) -> Done:
    length = _file_size(file)
    if length > MAX_IMAGE_BYTES:
        problem = f"{path_for_message(path)} is an image of {format_byte_count(length)}; at most {format_byte_count(MAX_IMAGE_BYTES)} can be shown."
        raise ToolError(problem, code="too_large")
    file.seek(0)
    data = b64encode(file.read(MAX_IMAGE_BYTES)).decode()
    found = {"path": path.display_path, "mimeType": mime_type, "size": length}
    content = (Text(f"{path.display_path}: {mime_type}, {format_byte_count(length)}"), Image(data, mime_type))
    return Done(found, content=content, title=f"Read {path.display_path}", metadata=found)


# read_file


def _drop_absent_byte_order_mark(file: BinaryIO, encoding: TextEncoding) -> TextEncoding:
    """The encoding that was asked for; a mark that the file does not begin with is not taken away."""
    return (
        encoding
        if file.read(len(encoding.byte_order_mark)) == encoding.byte_order_mark
        else TextEncoding(encoding.codec)
    )


def _read_whole_file(path: WorkspacePath, file: BinaryIO) -> bytes:
    file.seek(0)
    data = file.read(MAX_WHOLE_FILE_BYTES + 1)
    if len(data) > MAX_WHOLE_FILE_BYTES:
        has, most = format_byte_count(max(_file_size(file), len(data))), format_byte_count(MAX_WHOLE_FILE_BYTES)
        problem = f"{path_for_message(path)} has {has}, more than the {most} that are read at once."
        raise ToolError(f"{problem} Read it in pages, with offset=0 and limit={DEFAULT_PAGE_LINES}.", code="too_large")
    return data


def _base64_content(path: WorkspacePath, file: BinaryIO) -> dict[str, Any]:
    data = _read_whole_file(path, file)
    return {"content": b64encode(data).decode(), "size": len(data), "path": path.display_path, "encoding": "base64"}


def _text_content(path: WorkspacePath, file: BinaryIO, encoding: TextEncoding, *, strict: bool) -> dict[str, Any]:
    data = _read_whole_file(path, file)
    try:
        content = data[len(encoding.byte_order_mark) :].decode(encoding.codec, "strict" if strict else "replace")
    except UnicodeDecodeError as error:
        problem = f"{path_for_message(path)} is not {encoding.codec}: its byte {error.start + len(encoding.byte_order_mark):,} does not fit."
        raise InvalidArguments(f"{problem} Leave the encoding out.") from None
    total = content.count("\n") + (content[-1:] not in ("", "\n"))
    found = {"content": content, "size": len(data), "totalLines": total}
    return {**found, "path": path.display_path, "encoding": encoding.name}


def _page_content(
    path: WorkspacePath, page: LinePage, encoding: TextEncoding, limit: int, file_size: int
) -> dict[str, Any]:
    content = "".join(line.text for line in page.lines)
    found = {"content": content, "size": file_size, "totalLines": page.total_lines, "path": path.display_path}
    where = {"offset": page.first_line - 1, "limit": limit, "truncated": page.is_truncated}
    return {**found, "encoding": encoding.name, **where}
