"""Writing files: new content in place of all that was there, whole or not at all."""

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
"""Bytes of the largest file that a person is shown the changes of."""


def write_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`write` and `write_file`."""

    def _facets(path: str, **more: Any) -> Any:
        return path_tool_options(workspace, "write", path, preview=_diff_preview(workspace, path), **more)

    @tool(
        **_facets("file_path", listed=naming == "short", examples=[{"file_path": "notes.md", "content": "# Notes\n"}])
    )
    def write(
        file_path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
    ) -> Done:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit`."""
        refuse_directory_path(file_path)
        spot, data = workspace.resolve(file_path), _encode_content(content, None)
        existed = _write_data(spot, data, ctx)
        title = f"{'Overwrote' if existed else 'Created'} {spot.display_path}"
        metadata = {"path": spot.display_path, "bytesWritten": len(data), "existedBefore": existed}
        return Done(f"{title} ({format_byte_count(len(data))}).", title=title, metadata=metadata)

    @tool(**_facets("path", listed=naming == "long", examples=[{"path": "notes.md", "content": "# Notes\n"}]))
    def write_file(
        path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, the default; base64 for any bytes.")] = None,
    ) -> dict[str, Any]:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit_file`."""
        refuse_directory_path(path)
        spot, data = workspace.resolve(path), _encode_content(content, encoding)
        existed = _write_data(spot, data, ctx)
        return {"bytesWritten": len(data), "path": spot.display_path, "existedBefore": existed}

    return [write, write_file]


def _write_data(path: WorkspacePath, data: bytes, ctx: Context) -> bool:
    if len(data) > MAX_EDITABLE_BYTES:
        raise ToolError(
            f"{format_byte_count(len(data))} are too many: {format_byte_count(MAX_EDITABLE_BYTES)} can be written at once.",
            code="too_large",
        )
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
    known = encoding_from_name(encoding or "utf-8")
    try:
        return known.byte_order_mark + content.encode(known.codec)
    except UnicodeEncodeError as error:
        problem = f"The content has {content[error.start]!r}, which {known.name} cannot write."
        raise InvalidArguments(f"{problem} Use utf-8.") from None


def _diff_preview(
    workspace: Workspace, path_argument: str
) -> Callable[[Mapping[str, Any], Context], Awaitable[dict[str, Any]]]:
    """What a person is shown before a file is written."""

    def work(arguments: Mapping[str, Any]) -> dict[str, Any]:
        spot = workspace.resolve(arguments[path_argument])
        before = _current_text(spot)
        if len(arguments["content"]) > _MAX_COMPARED_BYTES:
            raise ToolError(
                f"The new content of {path_for_message(spot)} is too large to be compared.", code="too_large"
            )
        lines, after = split_lines(before or ""), split_lines(arguments["content"].replace("\r\n", "\n"))
        diff = render_unified_diff(
            spot.display_path, [(TextSection(lines), diff_lines(lines, after))], is_new=before is None, max_lines=2000
        )
        return {"filePath": spot.display_path, "patch": diff, "isNewFile": before is None}

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        try:
            found = await asyncio.to_thread(work, arguments)
        except ToolError as error:  # the call itself will say the same, or what is there is no text
            found = {
                "filePath": escape_line(arguments[path_argument], 1000),
                "patch": "",
                "isNewFile": False,
                "problem": str(error),
            }
        return {"type": "diff", **found}

    return preview


def _current_text(path: WorkspacePath) -> str | None:
    """What is in the file now; None where there is none."""
    try:
        with path.open_reader() as file:
            data = file.read(_MAX_COMPARED_BYTES + 1)
    except NotFound:
        return None
    if len(data) > _MAX_COMPARED_BYTES:
        raise ToolError(f"{path_for_message(path)} is too large to be compared.", code="too_large")
    return TextDocument.from_bytes(path, data).text
