"""The factory `files`: tools that read, write, edit, list, move and search files in a workspace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surehand.builtin.files.edit import edit_tools
from surehand.builtin.files.file_operations import file_operation_tools
from surehand.builtin.files.file_versions import ReadVersions
from surehand.builtin.files.list_directory import list_tools
from surehand.builtin.files.read import read_tools
from surehand.builtin.files.write import write_tools
from surehand.builtin.path_arguments import ToolNaming
from surehand.catalogue.wrap import FilteredTools
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.workspace.workspace import DirectoryLike, Workspace

_NO_CHANGES_REASON = "changing files is switched off in this workspace"


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
        names: which tools there are: `read write edit list glob grep`, or `read_file` and so on with other parameters,
            or both. A policy rule that names one of such a pair covers the other as well.
        extra: further directories that tools may read and write.
        read_only: further directories that tools may read.
        writes: False forbids every change; the tools that make changes are left out.
        sensitive: globs of names that need a person's approval; if omitted, names that look like keys.
    """
    # Imported here because searching brings the sandbox and its child processes with it.
    from surehand.builtin.search.tools import search_tools

    if names not in ("short", "long", "both"):
        raise DefinitionError(f"names must be 'short', 'long' or 'both', got {names!r}.", fix="use one of the three.")
    options = {"extra": extra, "read_only": read_only, "writes": writes, "sensitive": sensitive}
    defaults: dict[str, Any] = {"extra": (), "read_only": (), "writes": True, "sensitive": None}
    changed = {name: value for name, value in options.items() if value != defaults[name]}
    opened = Workspace.coerce(workspace, **changed)
    versions = ReadVersions()
    tools = [
        *read_tools(opened, names, versions),
        *write_tools(opened, names, versions),
        *edit_tools(opened, names, versions),
        *list_tools(opened, names),
        *search_tools(opened, names),
        *file_operation_tools(opened, versions),
    ]
    if opened.writes:
        return tools
    left_out = {tool.name: _NO_CHANGES_REASON for tool in tools if "write" in tool.effects}
    return FilteredTools([tool for tool in tools if tool.name not in left_out], left_out)
