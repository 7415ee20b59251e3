"""Listing folders: lines for a model to read (`list`), or records (`list_files`)."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.files.file_description import format_byte_count
from surehand.builtin.files.path_arguments import DirectoryPath, ToolNaming, path_tool_options
from surehand.builtin.search.globs import GlobPattern
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import DirectoryEntry, WorkspacePath
from surehand.workspace.workspace import Workspace

FoundEntry: TypeAlias = tuple[WorkspacePath, DirectoryEntry]
_DEFAULT_ENTRIES, _MAX_ENTRIES = 200, 500
_DEFAULT_FILES, _MAX_FILES = 200, 2000
_MAX_ENTRIES_MATCHED = 200_000
"""Entries that are compared with a pattern."""


def list_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`list` and `list_files`."""

    @tool(
        name="list",
        **path_tool_options(workspace, "read", "path", listed=naming == "short", examples=[{"path": "src"}]),
    )
    def list_(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below, too.")] = False,
        include_hidden: Annotated[bool, Field(description="Names that begin with a dot, too.")] = False,
        max_entries: Annotated[int, Field(ge=1, description=f"At most {_MAX_ENTRIES}.")] = _DEFAULT_ENTRIES,
    ) -> Done:
        """List what is in a folder: folders first, then files with their sizes."""
        spot, most = workspace.resolve(path or "."), min(max_entries, _MAX_ENTRIES)
        found = _walk_breadth_first(
            spot, most + 1, recursive, lambda entry: True, include_hidden, lambda: ctx.cancelled
        )
        some = list(islice(found, most + 1))
        text = "\n".join(_render_entry(spot, *one) for one in some[:most]) or "(the folder is empty)"
        if len(some) > most:
            text += f"\n\n(cut after {most} entries. List a folder below, or look for names with `glob`.)"
        metadata = {"path": spot.display_path, "entryCount": len(some[:most]), "truncated": len(some) > most}
        return Done(text, title=f"Listed {spot.display_path}", metadata=metadata)

    @tool(
        **path_tool_options(
            workspace, "read", "path", listed=naming == "long", examples=[{"path": "src", "pattern": "*.py"}]
        )
    )
    def list_files(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below too, but not hidden ones.")] = False,
        pattern: Annotated[str | None, Field(description="Only what fits a glob, such as *.py or src/**/*.py.")] = None,
        limit: Annotated[int, Field(ge=1, description=f"At most {_MAX_FILES}.")] = _DEFAULT_FILES,
    ) -> dict[str, Any]:
        """List the files and folders in a folder, as records with their sizes."""
        spot, most = workspace.resolve(path or "."), min(limit, _MAX_FILES)
        room = (_MAX_ENTRIES_MATCHED if pattern else most) + 1
        found = _walk_breadth_first(spot, room, recursive, _is_not_hidden, True, lambda: ctx.cancelled)
        glob = GlobPattern(pattern) if pattern else None
        fitting = (
            one
            for one in islice(found, _MAX_ENTRIES_MATCHED)
            if glob is None or _matches_glob(glob, _relative_parts(spot, one[0]))
        )
        some = list(islice(fitting, most + 1))
        files = [_entry_record(*one) for one in some[:most]]
        where = {"path": spot.display_path, "recursive": recursive, "count": len(files)}
        return {"files": files, **where, "truncated": len(some) > most or next(found, None) is not None}

    return [list_, list_files]


def _is_not_hidden(entry: DirectoryEntry) -> bool:
    return not entry.name.startswith(".")


def _walk_breadth_first(
    path: WorkspacePath,
    limit: int,
    recursive: bool,
    should_enter: Callable[[DirectoryEntry], bool],
    include_hidden: bool,
    is_cancelled: Callable[[], bool],
) -> Iterator[FoundEntry]:
    """What is in a folder, and then in the folders in it: what is near comes first."""
    folders = deque([path])
    while folders:
        folder = folders.popleft()
        for entry in _scan_directory(folder, limit, include_hidden, is_first=folder is path):
            yield folder / entry.name, entry
            if recursive and entry.is_directory and should_enter(entry):
                folders.append(folder / entry.name)
        if is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


def _scan_directory(
    directory: WorkspacePath, limit: int, include_hidden: bool, *, is_first: bool
) -> list[DirectoryEntry]:
    try:
        flags = 0 if is_first else os.O_NOFOLLOW
        return directory.scan_directory(
            limit=limit, directories_first=True, include_hidden=include_hidden, extra_flags=flags
        )
    except ToolError:
        if not is_first:
            return []  # gone, or not to be entered
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise InvalidArguments(
                f"{path_for_message(directory)} is a file, not a folder. Read it, or name a folder."
            ) from None
        raise


def _relative_parts(base: WorkspacePath, path: WorkspacePath) -> tuple[str, ...]:
    return path.parts[len(base.parts) :]


def _matches_glob(glob: GlobPattern, parts: tuple[str, ...]) -> bool:
    base = len(glob.base_parts)
    return parts[:base] == glob.base_parts and glob("/".join(parts[base:]))


def _render_entry(base: WorkspacePath, path: WorkspacePath, entry: DirectoryEntry) -> str:
    name = escape_line("/".join(_relative_parts(base, path)))
    return (
        f"{name}/"
        if entry.is_directory
        else f"{name}  (link)"
        if entry.is_link
        else f"{name}  {format_byte_count(entry.size)}"
    )


def _entry_record(path: WorkspacePath, entry: DirectoryEntry) -> dict[str, Any]:
    return {"name": escape_line(entry.name), "path": path.display_path, "isDir": entry.is_directory, "size": entry.size}
