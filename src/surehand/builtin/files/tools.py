"""Files: the tools that read, write, edit, list, move and search files in a workspace."""

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
        workspace: a folder, or a `Workspace` that other tools share; left out, it is found as `Workspace.detect` says.
        names: which names models are shown, `read write edit list` or `read_file` and its like; all can be called.
        extra: further folders that may be read and written.
        read_only: further folders that may be read.
        writes: False lets nothing be changed.
        sensitive: globs of names that a person is asked about first; left out, those that look like keys.
    """
    from surehand.builtin.search.tools import (
        search_tools,  # what it brings along is loaded by those alone who want files
    )

    if names not in ("short", "long"):
        raise DefinitionError(f"files(names={names!r}) cannot be used.", fix="use 'short' or 'long'.")
    given = {"extra": extra, "read_only": read_only, "writes": writes, "sensitive": sensitive}
    usual: dict[str, Any] = {"extra": (), "read_only": (), "writes": True, "sensitive": None}
    space = Workspace.coerce(workspace, **{name: value for name, value in given.items() if value != usual[name]})
    tools = [*read_tools(space, names), *write_tools(space, names), *edit_tools(space, names)]
    return [*tools, *list_tools(space, names), *search_tools(space, names), *file_operation_tools(space)]
