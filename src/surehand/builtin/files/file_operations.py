"""Deleting and moving files, and telling what a path leads to."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from surehand.builtin.files.path_arguments import (
    FilePath,
    path_tool_options,
    refuse_directory_path,
    refuse_if_cancelled,
)
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.workspace import Workspace

_MAX_NAMES_CHECKED = 10_000
"""Names below a folder that are looked at before it is deleted."""
_Move = TypedDict(  # one of its keys is a keyword
    "_Move",
    {
        "from": Annotated[str, Field(description="The file or folder.")],
        "to": Annotated[str, Field(description="Its new path, with its name.")],
        "overwrite": NotRequired[Annotated[bool, Field(description="Replace a file that is there already.")]],
    },
)


def _describe_delete(paths: list[str], arguments: Mapping[str, Any]) -> str:
    return f"delete {paths[0]}{' and all that is in it' if arguments.get('recursive') else ''}"


def _describe_move(paths: list[str], arguments: Mapping[str, Any]) -> str:
    return f"move {paths[0]} to {paths[1]}{', replacing what is there' if arguments.get('overwrite') else ''}"


def file_operation_tools(workspace: Workspace) -> list[Tool[..., Any]]:
    """`delete_file`, `move_file` and `get_file_info`."""

    async def _asks(arguments: Mapping[str, Any], ctx: Context) -> Any:
        sensitive = workspace.is_sensitive(arguments["path"])
        if arguments["recursive"] and not sensitive:
            sensitive = await asyncio.to_thread(_contains_sensitive, workspace, arguments["path"])
        return sensitive and "each time"

    @tool(
        **path_tool_options(
            workspace,
            "write",
            "path",
            describe_action=_describe_delete,
            confirm=_asks,
            examples=[{"path": "build/old.txt"}],
        )
    )
    def delete_file(
        path: Annotated[str, Field(description="The file or folder, from the workspace's root or absolute.")],
        ctx: Context,
        recursive: Annotated[bool, Field(description="A folder with all that is in it.")] = False,
    ) -> dict[str, Any]:
        """Delete a file or an empty folder; with `recursive`, a folder and all that is in it. It cannot be undone."""
        spot = workspace.resolve(path)
        with nullcontext() if recursive else workspace.file_lock(spot):
            refuse_if_cancelled(ctx)
            try:
                spot.remove(recursive=recursive, is_cancelled=lambda: ctx.cancelled)
            except ToolError as error:
                hint = (
                    "Somebody fills it meanwhile." if recursive else "Set recursive=true to delete it with its content."
                )
                raise _with_hint(error, hint) from None
        return {"deleted": True, "path": spot.display_path}

    examples = [{"from": "a.txt", "to": "b.txt"}]

    @tool(
        **path_tool_options(workspace, "write", "from", "to", describe_action=_describe_move, examples=examples),
        parameters=_Move,
    )
    def move_file(move: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Move or rename a file or folder. What is there already stays, unless `overwrite` is set."""
        refuse_directory_path(move["to"])
        old, new = workspace.resolve(move["from"]), workspace.resolve(move["to"])
        if old.root is new.root and new.parts[: len(old.parts)] == old.parts and old.parts:
            raise InvalidArguments(
                f"{path_for_message(old)} cannot be moved to {path_for_message(new)}, which is the same or inside it."
            )
        with workspace.file_lock(old):
            refuse_if_cancelled(ctx)
            try:
                old.rename(new, overwrite=move.get("overwrite", False))
            except ToolError as error:
                hint = "" if move.get("overwrite") else "Set overwrite=true to replace a file, or choose another path."
                raise _with_hint(error, hint) from None
        return {"from": old.display_path, "to": new.display_path, "moved": True, "success": True}

    @tool(**path_tool_options(workspace, "read", "path", examples=[{"path": "src/main.py"}]))
    def get_file_info(path: FilePath) -> dict[str, Any]:
        """Tell whether a path exists, its size, when it was changed, and whether it is a file or a folder."""
        spot = workspace.resolve(path)
        try:
            found = spot.stat()
        except (NotFound, InvalidArguments) as error:  # no path, for one, leads through a file
            why = (
                str(error)
                if isinstance(error, NotFound)
                else f"{path_for_message(spot)} was not found in the workspace."
            )
            raise NotFound(why, data={"exists": False}) from None
        modified = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="milliseconds")
        is_folder, is_file = stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode)
        known = {"exists": True, "size": found.st_size, "modified": modified}
        return {**known, "isDirectory": is_folder, "isFile": is_file, "path": spot.display_path}

    return [delete_file, move_file, get_file_info]


def _with_hint(error: ToolError, hint: str) -> ToolError:
    return ToolError(f"{error} {hint}", code="conflict") if error.code == "conflict" else error


def _contains_sensitive(workspace: Workspace, path: str) -> bool:
    """Whether a folder holds, or may hold, what a person would be asked about."""
    try:
        found = [
            entry.name for _, entry in islice(workspace.resolve(path).walk(include_hidden=True), _MAX_NAMES_CHECKED + 1)
        ]
    except ToolError:
        return False  # no folder: the call itself will say what it is
    return len(found) > _MAX_NAMES_CHECKED or any(workspace.has_sensitive_name((name,)) for name in found)
