"""Writing files: new content in place of all that was there, whole or not at all."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.changes import Passage, between, lines_of, patch
from surehand.builtin.document import MOST, Document
from surehand.builtin.encoding import named
from surehand.builtin.paths import FilePath, Names, facets, refuse_folder, refuse_late
from surehand.builtin.sizes import size
from surehand.builtin.spot import Spot
from surehand.builtin.trouble import told
from surehand.builtin.workspace import Workspace
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool

_COMPARED = 1 << 20
"""Bytes of the largest file that a person is shown the changes of."""


def write_tools(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    """`write` and `write_file`."""

    def _facets(path: str, **more: Any) -> Any:
        return facets(workspace, "write", path, preview=_preview(workspace, path), **more)

    @tool(**_facets("file_path", listed=names == "short", examples=[{"file_path": "notes.md", "content": "# Notes\n"}]))
    def write(
        file_path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
    ) -> Done:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit`."""
        refuse_folder(file_path)
        spot, data = workspace.spot(file_path), _bytes(content, None)
        existed = _write(spot, data, ctx)
        title = f"{'Overwrote' if existed else 'Created'} {spot.shown}"
        metadata = {"path": spot.shown, "bytesWritten": len(data), "existedBefore": existed}
        return Done(f"{title} ({size(len(data))}).", title=title, metadata=metadata)

    @tool(**_facets("path", listed=names == "long", examples=[{"path": "notes.md", "content": "# Notes\n"}]))
    def write_file(
        path: FilePath,
        content: Annotated[str, Field(description="All that is to be in the file.")],
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, the default; base64 for any bytes.")] = None,
    ) -> dict[str, Any]:
        """Create a file, or replace all of its content; folders are made. To change a part, use `edit_file`."""
        refuse_folder(path)
        spot, data = workspace.spot(path), _bytes(content, encoding)
        existed = _write(spot, data, ctx)
        return {"bytesWritten": len(data), "path": spot.shown, "existedBefore": existed}

    return [write, write_file]


def _write(spot: Spot, data: bytes, ctx: Context) -> bool:
    if len(data) > MOST:
        raise ToolError(f"{size(len(data))} are too many: {size(MOST)} can be written at once.", code="too_large")
    spot.check_writable()
    with spot.workspace.lock(spot.real()):
        refuse_late(ctx)
        return spot.replace(data)


def _bytes(content: str, encoding: str | None) -> bytes:
    if encoding is not None and encoding.lower() == "base64":
        try:
            return b64decode(content, validate=True)
        except (Error, ValueError):
            raise InvalidArguments("The content is no base64.") from None
    known = named(encoding or "utf-8")
    try:
        return known.mark + content.encode(known.codec)
    except UnicodeEncodeError as error:
        problem = f"The content has {content[error.start]!r}, which {known.name} cannot write."
        raise InvalidArguments(f"{problem} Use utf-8.") from None


def _preview(workspace: Workspace, name: str) -> Callable[[Mapping[str, Any], Context], Awaitable[dict[str, Any]]]:
    """What a person is shown before a file is written."""

    def work(arguments: Mapping[str, Any]) -> dict[str, Any]:
        spot = workspace.spot(arguments[name])
        before = _before(spot)
        if len(arguments["content"]) > _COMPARED:
            raise ToolError(f"The new content of {told(spot)} is too large to be compared.", code="too_large")
        lines, after = lines_of(before or ""), lines_of(arguments["content"].replace("\r\n", "\n"))
        diff = patch(spot.shown, [(Passage(lines), between(lines, after))], is_new=before is None, most=2000)
        return {"filePath": spot.shown, "patch": diff, "isNewFile": before is None}

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        try:
            found = await asyncio.to_thread(work, arguments)
        except ToolError as error:  # the call itself will say the same, or what is there is no text
            found = {
                "filePath": escape_line(arguments[name], 1000),
                "patch": "",
                "isNewFile": False,
                "problem": str(error),
            }
        return {"type": "diff", **found}

    return preview


def _before(spot: Spot) -> str | None:
    """What is in the file now; None where there is none."""
    try:
        with spot.reader() as file:
            data = file.read(_COMPARED + 1)
    except NotFound:
        return None
    if len(data) > _COMPARED:
        raise ToolError(f"{told(spot)} is too large to be compared.", code="too_large")
    return Document.of(spot, data).text
