"""The tools that read a file: `read` gives a page of numbered lines or an image, `read_file` the content as it is.

Both read the text of a PDF; `read` shows the cells of a notebook.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from surehand.builtin.file_description import detect_image_type, format_byte_count, is_pdf
from surehand.builtin.files.file_content import (
    DEFAULT_PAGE_LINES,
    MAX_DOCUMENT_BYTES,
    detect_text_encoding,
    file_content,
    file_size,
    pdf_lines,
    read_document,
)
from surehand.builtin.files.file_versions import FileVersion, ReadVersions
from surehand.builtin.files.line_reader import LinePage, page_of_lines, read_page
from surehand.builtin.files.notebook import NOTEBOOK_SUFFIX, RenderedNotebook, render_notebook
from surehand.builtin.files.text_encoding import HEAD_BYTES
from surehand.builtin.path_arguments import FilePath, ToolNaming, path_tool_options, tools_by_naming
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
MAX_LINE_LENGTH = 2000
MAX_PAGE_BYTES = 88_000
"""A page of numbered lines ends after this many bytes, so that it fits below the limit of one tool output."""
MAX_IMAGE_BYTES = 3_750_000
"""Model APIs accept images of five megabytes of base64, which has four characters for three bytes."""
_NUL = "\0"
_NUL_SUBSTITUTE = "\ufffd"  # some model APIs refuse a NUL


def read_tools(workspace: Workspace, naming: ToolNaming, versions: ReadVersions) -> list[Tool[..., Any]]:
    """`read`, or `read_file`, or both."""

    def check_file(arguments: Mapping[str, Any], ctx: Context) -> None:
        with workspace.resolve(arguments.get("file_path") or arguments["path"]).open_reader():
            pass

    @tool(**path_tool_options(workspace, "read", "file_path", check=check_file))
    def read(
        file_path: FilePath,
        ctx: Context,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
        limit: Annotated[
            int, Field(ge=1, description=f"Lines to read, {MAX_PAGE_LINES} at most.")
        ] = DEFAULT_PAGE_LINES,
        line_numbers: Annotated[bool, Field(description="Whether to number the lines.")] = True,
    ) -> Done:
        """Read a text file, PDF, notebook or image. Long files come in pages: go on with `offset`."""
        path = workspace.resolve(file_path)
        requested = RequestedPage(offset, min(limit, MAX_PAGE_LINES), line_numbers)
        with path.open_reader() as file:
            version = FileVersion.of_descriptor(file.fileno())
            outcome = _read_outcome(path, file, requested, lambda: ctx.cancelled)
        versions.remember(path, version, ctx)
        return outcome

    @tool(**path_tool_options(workspace, "read", "path", check=check_file))
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
            version = FileVersion.of_descriptor(file.fileno())
            content = file_content(target, file, encoding, offset, limit, lambda: ctx.cancelled)
        versions.remember(target, version, ctx)
        return content

    return tools_by_naming(naming, read, read_file)


# read


@dataclass(frozen=True, slots=True)
class RequestedPage:
    """The lines that a model asked for, and how to show them."""

    first_line: int
    max_lines: int
    line_numbers: bool


def _read_outcome(
    path: WorkspacePath, file: BinaryIO, requested: RequestedPage, is_cancelled: Callable[[], bool]
) -> Done:
    head = file.read(HEAD_BYTES)
    mime_type = detect_image_type(head)
    if mime_type is not None:
        return _image_outcome(path, file, mime_type)
    if is_pdf(head):
        return _pdf_outcome(path, file, requested)
    if path.name.endswith(NOTEBOOK_SUFFIX) and file_size(file) <= MAX_DOCUMENT_BYTES:
        notebook = render_notebook(read_document(path, file))
        if notebook is not None:
            return _notebook_outcome(path, notebook, requested)
    encoding = detect_text_encoding(path, file, head)
    page = read_page(
        file,
        encoding,
        requested.first_line,
        requested.max_lines,
        max_line_length=MAX_LINE_LENGTH,
        max_bytes=MAX_PAGE_BYTES,
        is_cancelled=is_cancelled,
    )
    metadata = {} if encoding.name == "utf-8" else {"encoding": encoding.name}
    return _page_outcome(path, page, requested, metadata)


def _pdf_outcome(path: WorkspacePath, file: BinaryIO, requested: RequestedPage) -> Done:
    lines, page_count = pdf_lines(path, file)
    return _page_outcome(path, _page_of_document(lines, requested), requested, {"pages": page_count})


def _notebook_outcome(path: WorkspacePath, notebook: RenderedNotebook, requested: RequestedPage) -> Done:
    page = _page_of_document(notebook.lines, requested)
    outcome = _page_outcome(path, page, requested, {"cells": notebook.cell_count})
    shown_lines = range(page.first_line, page.last_line + 1)
    images = [image for line, image in notebook.images.items() if line in shown_lines]
    if not images:
        return outcome
    return outcome.evolve(content=(Text(outcome.text), *_images_within_limit(images)))


def _images_within_limit(images: list[Image]) -> list[Image]:
    """The first images that model APIs accept together."""
    totals = accumulate(len(image.data) for image in images)
    return [image for image, total in zip(images, totals, strict=True) if total <= MAX_IMAGE_BYTES * 4 // 3]


def _page_of_document(lines: list[str], requested: RequestedPage) -> LinePage:
    return page_of_lines(
        lines,
        requested.first_line,
        requested.max_lines,
        max_line_length=MAX_LINE_LENGTH,
        max_bytes=MAX_PAGE_BYTES,
    )


def _page_outcome(
    path: WorkspacePath, page: LinePage, requested: RequestedPage, more_metadata: Mapping[str, Any]
) -> Done:
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
        **more_metadata,
    }
    text = _render_lines(page, requested.line_numbers) or "(the file is empty)"
    return Done(text, title=f"Read {path.display_path}", metadata=metadata)


def _render_lines(page: LinePage, line_numbers: bool) -> str:
    cut_note = f" [cut: the line is longer than {MAX_LINE_LENGTH:,} characters]"
    rendered: list[str] = []
    for number, line in enumerate(page.lines, page.first_line):
        text = line.text_without_newline.replace(_NUL, _NUL_SUBSTITUTE)
        prefix = f"{number:>6}\t" if line_numbers else ""
        rendered.append(f"{prefix}{text}{cut_note if line.is_cut else ''}")
    if page.has_more:
        total = "" if page.total_lines is None else f" of {page.total_lines:,}"
        uncounted = "; more follow, not counted in so large a file" if page.total_lines is None else ""
        line_range = f"lines {page.first_line:,} to {page.last_line:,}{total}{uncounted}"
        rendered.append(f"\n({line_range}. Go on with offset={page.last_line + 1}.)")
    return "\n".join(rendered)


def _image_outcome(path: WorkspacePath, file: BinaryIO, mime_type: str) -> Done:
    length = file_size(file)
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
