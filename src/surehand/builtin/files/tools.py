"""The factory `files`: tools that read, write, edit, list, move and search files in a workspace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surehand.builtin.files.edit import edit_tools
from surehand.builtin.files.file_operations import file_operation_tools
from surehand.builtin.files.list_directory import list_tools
from surehand.builtin.files.path_arguments import ToolNaming
from surehand.builtin.files.read import read_tools
from surehand.builtin.files.write import write_tools
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.workspace.workspace import DirectoryLike, Workspace


def files(
    workspace: DirectoryLike | Workspace | None = None,
    *,
    names: ToolNaming = "short",
    extra: DirectoryLike | Iterable[DirectoryLike] = (),
    read_only: DirectoryLike | Iterable[DirectoryLike] = (),
    writes: bool = True,
    sensitive: str | Iterable[str] | None = None,
) -> list[Tool[..., Any]]:
    """Tools for the files in a workspace, which they cannot leave.

    Args:
        workspace: a directory, or a `Workspace` that other tools share; if omitted, `Workspace.detect` finds one.
        names: which names models see, `read write edit list` or `read_file` and so on; all of them can be called.
        extra: further directories that tools may read and write.
        read_only: further directories that tools may read.
        writes: False forbids every change.
        sensitive: globs of names that need a person's approval; if omitted, names that look like keys.
    """
    # Imported here because searching brings the sandbox and its child processes with it.
    from surehand.builtin.search.tools import search_tools

    if names not in ("short", "long"):
        raise DefinitionError(f"names must be 'short' or 'long', got {names!r}.", fix="use one of the two.")
    options = {"extra": extra, "read_only": read_only, "writes": writes, "sensitive": sensitive}
    defaults: dict[str, Any] = {"extra": (), "read_only": (), "writes": True, "sensitive": None}
    changed = {name: value for name, value in options.items() if value != defaults[name]}
    opened = Workspace.coerce(workspace, **changed)
    return [
        *read_tools(opened, names),
        *write_tools(opened, names),
        *edit_tools(opened, names),
        *list_tools(opened, names),
        *search_tools(opened, names),
        *file_operation_tools(opened),
    ]
