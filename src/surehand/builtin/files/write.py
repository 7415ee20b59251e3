"""The tools that write a file: `write` and `write_file` replace its whole content, all of it or nothing."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.call_check import CallCheck
from surehand.builtin.file_description import format_byte_count
from surehand.builtin.files.diff import TextSection, diff_lines, render_unified_diff, split_lines
from surehand.builtin.files.file_versions import ReadVersions
from surehand.builtin.files.text_document import MAX_EDITABLE_BYTES, TextDocument
from surehand.builtin.files.text_encoding import encoding_from_name
from surehand.builtin.path_arguments import (
    FilePath,
    ToolNaming,
    path_tool_options,
    refuse_directory_path,
    refuse_if_cancelled,
    tools_by_naming,
)
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.outcome import Done
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_COMPARED_BYTES = 1 << 20
"""Largest file whose changes are shown to a person before the write."""
_MAX_PREVIEW_LINES = 2000


def write_tools(workspace: Workspace, naming: ToolNaming, versions: ReadVersions) -> list[Tool[..., Any]]:
    """`write`, or `write_file`, or both."""

    def write_options(path_argument: str, **more_options: Any) -> Any:
        check = _diff_check(workspace, path_argument, versions)
        return path_tool_options(workspace, "write", path_argument, check=check, **more_options)

    @tool(**write_options("file_path"))
    def write(
        file_path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
    ) -> Done:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit`."""
        refuse_directory_path(file_path)
        path = workspace.resolve(file_path)
        data = _encode_content(content, None)
        existed = _write_data(path, data, versions, ctx)
        title = f"{'Overwrote' if existed else 'Created'} {path.display_path}"
        metadata = {"path": path.display_path, "bytesWritten": len(data), "existedBefore": existed}
        return Done(f"{title} ({format_byte_count(len(data))}).", title=title, metadata=metadata)

    @tool(**write_options("path"))
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
        existed = _write_data(target, data, versions, ctx)
        return {"bytesWritten": len(data), "path": target.display_path, "existedBefore": existed}

    return tools_by_naming(naming, write, write_file)


def _write_data(path: WorkspacePath, data: bytes, versions: ReadVersions, ctx: Context) -> bool:
    """Write the file, unless it changed since this session read it; return whether it existed."""
    path.check_writable()
    with path.workspace.file_lock(path.resolve_links()):
        versions.refuse_if_changed(path, ctx)
        refuse_if_cancelled(ctx)
        existed = path.write_atomically(data)
        versions.remember_own_change(path, data, ctx)
        return existed


def _encode_content(content: str, encoding: str | None) -> bytes:
    """The bytes to write; raises for content that is not of the encoding, or too long."""
    data = _encode_text(content, encoding)
    if len(data) > MAX_EDITABLE_BYTES:
        size = format_byte_count(len(data))
        limit = format_byte_count(MAX_EDITABLE_BYTES)
        raise ToolError(f"{size} are too many: {limit} can be written at once.", code="too_large")
    return data


def _encode_text(content: str, encoding: str | None) -> bytes:
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


def _diff_check(workspace: Workspace, path_argument: str, versions: ReadVersions) -> CallCheck:
    """Refuses what cannot be written, and shows a person the rest before it is written: a unified diff."""

    def check(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        refuse_directory_path(arguments[path_argument])
        path = workspace.resolve(arguments[path_argument])
        _encode_content(arguments["content"], arguments.get("encoding"))
        path.check_write()
        versions.refuse_if_changed(path, ctx)
        try:
            shown = _compute_diff(path, arguments["content"])
        except ToolError as error:  # a file that is no text, or too large to be compared, can still be replaced
            shown = {"filePath": path.display_path, "patch": "", "isNewFile": False, "problem": str(error)}
        return {"type": "diff", **shown}

    return check


def _compute_diff(path: WorkspacePath, content: str) -> dict[str, Any]:
    current = _current_text(path)
    if len(content) > _MAX_COMPARED_BYTES:
        problem = f"The new content of {path_for_message(path)} is too large to be compared."
        raise ToolError(problem, code="too_large")
    old_lines = split_lines(current or "")
    new_lines = split_lines(content.replace("\r\n", "\n"))
    sections = [(TextSection(old_lines), diff_lines(old_lines, new_lines))]
    is_new = current is None
    diff = render_unified_diff(path.display_path, sections, is_new=is_new, max_lines=_MAX_PREVIEW_LINES)
    return {"filePath": path.display_path, "patch": diff, "isNewFile": is_new}


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
