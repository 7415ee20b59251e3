"""The tools `delete_file`, `move_file` and `get_file_info`."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from surehand.builtin.files.file_versions import ReadVersions
from surehand.builtin.path_arguments import (
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
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_NAMES_CHECKED = 10_000
"""Names below a directory that are checked before it is deleted; with more, a person is asked."""
_DELETE_HINT = "Set recursive=true to delete it with its content."
_MOVE_HINT = "Set overwrite=true to replace a file, or choose another path."
_Move = TypedDict(  # in functional form, because `from` is a Python keyword
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


def file_operation_tools(workspace: Workspace, versions: ReadVersions) -> list[Tool[..., Any]]:
    """`delete_file`, `move_file` and `get_file_info`."""

    async def confirm_delete(arguments: Mapping[str, Any], ctx: Context) -> Any:
        sensitive = workspace.is_sensitive(arguments["path"])
        if arguments["recursive"] and not sensitive:
            sensitive = await asyncio.to_thread(_contains_sensitive, workspace, arguments["path"])
        return sensitive and "each time"

    def check_delete(arguments: Mapping[str, Any], ctx: Context) -> None:
        try:
            workspace.resolve(arguments["path"]).check_remove(recursive=arguments["recursive"])
        except ToolError as error:
            raise _with_conflict_hint(error, _DELETE_HINT) from None

    @tool(
        **path_tool_options(
            workspace,
            "write",
            "path",
            describe_action=_describe_delete,
            confirm=confirm_delete,
            check=check_delete,
        )
    )
    def delete_file(
        path: Annotated[str, Field(description="Relative to the workspace, or absolute.")],
        ctx: Context,
        recursive: Annotated[bool, Field(description="A folder with all that is in it.")] = False,
    ) -> dict[str, Any]:
        """Delete a file or an empty folder; with `recursive`, a folder and all that is in it. It cannot be undone."""
        target = workspace.resolve(path)
        # A whole tree takes too long for a lock that other calls wait for in their threads.
        with nullcontext() if recursive else workspace.file_lock(target):
            refuse_if_cancelled(ctx)
            try:
                target.remove(recursive=recursive, is_cancelled=lambda: ctx.cancelled)
            except ToolError as error:
                hint = "Somebody fills it meanwhile." if recursive else _DELETE_HINT
                raise _with_conflict_hint(error, hint) from None
        return {"deleted": True, "path": target.display_path}

    def resolve_move(move: Mapping[str, Any]) -> tuple[WorkspacePath, WorkspacePath]:
        refuse_directory_path(move["to"])
        old = workspace.resolve(move["from"])
        new = workspace.resolve(move["to"])
        if old.root is new.root and new.parts[: len(old.parts)] == old.parts and old.parts:
            problem = f"{path_for_message(old)} cannot be moved to {path_for_message(new)}"
            raise InvalidArguments(f"{problem}, which is the same or inside it.")
        return old, new

    def check_move(arguments: Mapping[str, Any], ctx: Context) -> None:
        old, new = resolve_move(arguments)
        try:
            old.check_rename(new, overwrite=arguments.get("overwrite", False))
        except ToolError as error:
            raise _with_conflict_hint(error, _MOVE_HINT) from None

    @tool(
        **path_tool_options(workspace, "write", "from", "to", describe_action=_describe_move, check=check_move),
        parameters=_Move,
    )
    def move_file(move: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Move or rename a file or folder. What is there already stays, unless `overwrite` is set."""
        old, new = resolve_move(move)
        with workspace.file_lock(old):
            refuse_if_cancelled(ctx)
            try:
                old.rename(new, overwrite=move.get("overwrite", False))
            except ToolError as error:
                hint = "" if move.get("overwrite") else _MOVE_HINT
                raise _with_conflict_hint(error, hint) from None
        versions.forget(old, ctx)
        versions.forget(new, ctx)
        return {"from": old.display_path, "to": new.display_path, "moved": True, "success": True}

    def check_exists(arguments: Mapping[str, Any], ctx: Context) -> None:
        _stat_existing(workspace.resolve(arguments["path"]))

    @tool(**path_tool_options(workspace, "read", "path", check=check_exists))
    def get_file_info(path: FilePath) -> dict[str, Any]:
        """Look up whether a path exists, what it is and when it was changed."""
        target = workspace.resolve(path)
        status = _stat_existing(target)
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds")
        return {
            "exists": True,
            "size": status.st_size,
            "modified": modified,
            "isDirectory": stat.S_ISDIR(status.st_mode),
            "isFile": stat.S_ISREG(status.st_mode),
            "path": target.display_path,
        }

    return [delete_file, move_file, get_file_info]


def _stat_existing(path: WorkspacePath) -> os.stat_result:
    """The status of a path; what is not there is an error whose data says so."""
    try:
        return path.stat()
    except NotFound as error:
        raise NotFound(str(error), data={"exists": False}) from None
    except InvalidArguments:  # a path that leads through a file, for example
        problem = f"{path_for_message(path)} was not found in the workspace."
        raise NotFound(problem, data={"exists": False}) from None


def _with_conflict_hint(error: ToolError, hint: str) -> ToolError:
    return ToolError(f"{error} {hint}", code="conflict") if error.code == "conflict" else error


def _contains_sensitive(workspace: Workspace, path: str) -> bool:
    """Whether a directory contains a sensitive name, or too many names to check."""
    try:
        entries = islice(workspace.resolve(path).walk(include_hidden=True), _MAX_NAMES_CHECKED + 1)
        names = [entry.name for _, entry in entries]
    except ToolError:
        return False  # not a directory: the call itself reports it
    return len(names) > _MAX_NAMES_CHECKED or any(workspace.has_sensitive_name((name,)) for name in names)
