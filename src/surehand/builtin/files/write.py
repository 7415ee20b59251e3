"""The tools that write a file: `write` and `write_file` replace its whole content, all of it or nothing."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.files.diff import TextSection, diff_lines, render_unified_diff, split_lines
from surehand.builtin.files.file_description import format_byte_count
from surehand.builtin.files.path_arguments import (
    FilePath,
    ToolNaming,
    path_tool_options,
    refuse_directory_path,
    refuse_if_cancelled,
)
from surehand.builtin.files.text_document import MAX_EDITABLE_BYTES, TextDocument
from surehand.builtin.files.text_encoding import encoding_from_name
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_COMPARED_BYTES = 1 << 20
"""Largest file whose changes are shown to a person before the write."""
_MAX_PREVIEW_LINES = 2000


def write_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`write` and `write_file`."""

    def write_options(path_argument: str, **more_options: Any) -> Any:
        preview = _diff_preview(workspace, path_argument)
        return path_tool_options(workspace, "write", path_argument, preview=preview, **more_options)

    short_example = {"file_path": "notes.md", "content": "# Notes\n"}
    long_example = {"path": "notes.md", "content": "# Notes\n"}

    @tool(**write_options("file_path", listed=naming == "short", examples=[short_example]))
    def write(
        file_path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
    ) -> Done:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit`."""
        refuse_directory_path(file_path)
        path = workspace.resolve(file_path)
        data = _encode_content(content, None)
        existed = _write_data(path, data, ctx)
        title = f"{'Overwrote' if existed else 'Created'} {path.display_path}"
        metadata = {"path": path.display_path, "bytesWritten": len(data), "existedBefore": existed}
        return Done(f"{title} ({format_byte_count(len(data))}).", title=title, metadata=metadata)

    @tool(**write_options("path", listed=naming == "long", examples=[long_example]))
    def write_file(
        path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, the default; base64 for any bytes.")] = None,
    ) -> dict[str, Any]:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit_file`."""
        refuse_directory_path(path)
        target = workspace.resolve(path)
        data = _encode_content(content, encoding)
        existed = _write_data(target, data, ctx)
        return {"bytesWritten": len(data), "path": target.display_path, "existedBefore": existed}

    return [write, write_file]


def _write_data(path: WorkspacePath, data: bytes, ctx: Context) -> bool:
    """Write the file, and return whether it existed."""
    if len(data) > MAX_EDITABLE_BYTES:
        size = format_byte_count(len(data))
        limit = format_byte_count(MAX_EDITABLE_BYTES)
        raise ToolError(f"{size} are too many: {limit} can be written at once.", code="too_large")
    path.check_writable()
    with path.workspace.file_lock(path.resolve_links()):
        refuse_if_cancelled(ctx)
        return path.write_atomically(data)


def _encode_content(content: str, encoding: str | None) -> bytes:
    if encoding is not None and encoding.lower() == "base64":
        try:
            return b64decode(content, validate=True)
        except (Error, ValueError):
            raise InvalidArguments("The content is no base64.") from None
    text_encoding = encoding_from_name(encoding or "utf-8")
    try:
        return text_encoding.byte_order_mark + content.encode(text_encoding.codec)
    except UnicodeEncodeError as error:
        problem = f"The content has {content[error.start]!r}, which {text_encoding.name} cannot write."
        raise InvalidArguments(f"{problem} Use utf-8.") from None


def _diff_preview(
    workspace: Workspace, path_argument: str
) -> Callable[[Mapping[str, Any], Context], Awaitable[dict[str, Any]]]:
    """The preview that a person sees before the file is written: a unified diff."""

    def compute_diff(arguments: Mapping[str, Any]) -> dict[str, Any]:
        path = workspace.resolve(arguments[path_argument])
        current = _current_text(path)
        content = arguments["content"]
        if len(content) > _MAX_COMPARED_BYTES:
            problem = f"The new content of {path_for_message(path)} is too large to be compared."
            raise ToolError(problem, code="too_large")
        old_lines = split_lines(current or "")
        new_lines = split_lines(content.replace("\r\n", "\n"))
        sections = [(TextSection(old_lines), diff_lines(old_lines, new_lines))]
        is_new = current is None
        diff = render_unified_diff(path.display_path, sections, is_new=is_new, max_lines=_MAX_PREVIEW_LINES)
        return {"filePath": path.display_path, "patch": diff, "isNewFile": is_new}

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        try:
            shown = await asyncio.to_thread(compute_diff, arguments)
        except ToolError as error:  # the call itself fails in the same way, or replaces a file that is not text
            path = escape_line(arguments[path_argument], 1000)
            shown = {"filePath": path, "patch": "", "isNewFile": False, "problem": str(error)}
        return {"type": "diff", **shown}

    return preview


def _current_text(path: WorkspacePath) -> str | None:
    """The file's text before the write; None if it does not exist."""
    try:
        with path.open_reader() as file:
            data = file.read(_MAX_COMPARED_BYTES + 1)
    except NotFound:
        return None
    if len(data) > _MAX_COMPARED_BYTES:
        raise ToolError(f"{path_for_message(path)} is too large to be compared.", code="too_large")
    return TextDocument.from_bytes(path, data).text
