"""The tools that list a directory: `list` gives lines for a model to read, `list_files` records."""

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
_DEFAULT_ENTRIES = 200
_MAX_ENTRIES = 500
_DEFAULT_FILES = 200
_MAX_FILES = 2000
_MAX_ENTRIES_MATCHED = 200_000
"""Entries that `list_files` compares with a pattern."""


def list_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`list` and `list_files`."""
    short_example = {"path": "src"}
    long_example = {"path": "src", "pattern": "*.py"}

    @tool(
        name="list", **path_tool_options(workspace, "read", "path", listed=naming == "short", examples=[short_example])
    )
    def list_(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below, too.")] = False,
        include_hidden: Annotated[bool, Field(description="Names that begin with a dot, too.")] = False,
        max_entries: Annotated[int, Field(ge=1, description=f"At most {_MAX_ENTRIES}.")] = _DEFAULT_ENTRIES,
    ) -> Done:
        """List what is in a folder: folders first, then files with their sizes."""
        directory = workspace.resolve(path or ".")
        limit = min(max_entries, _MAX_ENTRIES)
        entries = _walk_breadth_first(
            directory, limit + 1, recursive, lambda entry: True, include_hidden, lambda: ctx.cancelled
        )
        found = list(islice(entries, limit + 1))
        listed = found[:limit]
        is_truncated = len(found) > limit
        text = "\n".join(_render_entry(directory, *each) for each in listed) or "(the folder is empty)"
        if is_truncated:
            text += f"\n\n(cut after {limit} entries. List a folder below, or look for names with `glob`.)"
        metadata = {"path": directory.display_path, "entryCount": len(listed), "truncated": is_truncated}
        return Done(text, title=f"Listed {directory.display_path}", metadata=metadata)

    @tool(**path_tool_options(workspace, "read", "path", listed=naming == "long", examples=[long_example]))
    def list_files(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below too, but not hidden ones.")] = False,
        pattern: Annotated[str | None, Field(description="Only what fits a glob, such as *.py or src/**/*.py.")] = None,
        limit: Annotated[int, Field(ge=1, description=f"At most {_MAX_FILES}.")] = _DEFAULT_FILES,
    ) -> dict[str, Any]:
        """List the files and folders in a folder, as records with their sizes."""
        directory = workspace.resolve(path or ".")
        limit = min(limit, _MAX_FILES)
        scan_limit = (_MAX_ENTRIES_MATCHED if pattern else limit) + 1
        entries = _walk_breadth_first(directory, scan_limit, recursive, _is_not_hidden, True, lambda: ctx.cancelled)
        glob = GlobPattern(pattern) if pattern else None
        matching = (
            (entry_path, entry)
            for entry_path, entry in islice(entries, _MAX_ENTRIES_MATCHED)
            if glob is None or _matches_glob(glob, _relative_parts(directory, entry_path))
        )
        found = list(islice(matching, limit + 1))
        records = [_entry_record(*each) for each in found[:limit]]
        return {
            "files": records,
            "path": directory.display_path,
            "recursive": recursive,
            "count": len(records),
            "truncated": len(found) > limit or next(entries, None) is not None,
        }

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
    """The entries of a directory, then those of its subdirectories: the nearest come first."""
    pending = deque([path])
    while pending:
        directory = pending.popleft()
        for entry in _scan_directory(directory, limit, include_hidden, is_first=directory is path):
            entry_path = directory / entry.name
            yield entry_path, entry
            if recursive and entry.is_directory and should_enter(entry):
                pending.append(entry_path)
        if is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


def _scan_directory(
    directory: WorkspacePath, limit: int, include_hidden: bool, *, is_first: bool
) -> list[DirectoryEntry]:
    flags = 0 if is_first else os.O_NOFOLLOW
    try:
        return directory.scan_directory(
            limit=limit, directories_first=True, include_hidden=include_hidden, extra_flags=flags
        )
    except ToolError:
        if not is_first:
            return []  # deleted meanwhile, or not readable
        if not stat.S_ISDIR(directory.stat().st_mode):
            problem = f"{path_for_message(directory)} is a file, not a folder."
            raise InvalidArguments(f"{problem} Read it, or name a folder.") from None
        raise


def _relative_parts(base: WorkspacePath, path: WorkspacePath) -> tuple[str, ...]:
    return path.parts[len(base.parts) :]


def _matches_glob(glob: GlobPattern, parts: tuple[str, ...]) -> bool:
    base_length = len(glob.base_parts)
    return parts[:base_length] == glob.base_parts and glob("/".join(parts[base_length:]))


def _render_entry(base: WorkspacePath, path: WorkspacePath, entry: DirectoryEntry) -> str:
    name = escape_line("/".join(_relative_parts(base, path)))
    if entry.is_directory:
        return f"{name}/"
    return f"{name}  (link)" if entry.is_link else f"{name}  {format_byte_count(entry.size)}"


def _entry_record(path: WorkspacePath, entry: DirectoryEntry) -> dict[str, Any]:
    return {"name": escape_line(entry.name), "path": path.display_path, "isDir": entry.is_directory, "size": entry.size}
