"""Listing folders: lines for a model to read (`list`), or records (`list_files`)."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.globs import Glob
from surehand.builtin.paths import FolderPath, Names, facets
from surehand.builtin.sizes import size
from surehand.builtin.spot import Entry, Spot
from surehand.builtin.trouble import told
from surehand.builtin.workspace import Workspace
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool

Found: TypeAlias = tuple[Spot, Entry]
_ENTRIES, _MOST_ENTRIES = 200, 500
_FILES, _MOST_FILES = 200, 2000
_LOOKED_AT = 200_000
"""Entries that are compared with a pattern."""


def list_tools(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    """`list` and `list_files`."""

    @tool(name="list", **facets(workspace, "read", "path", listed=names == "short", examples=[{"path": "src"}]))
    def list_(
        ctx: Context,
        path: FolderPath = ".",
        recursive: Annotated[bool, Field(description="The folders below, too.")] = False,
        include_hidden: Annotated[bool, Field(description="Names that begin with a dot, too.")] = False,
        max_entries: Annotated[int, Field(ge=1, description=f"At most {_MOST_ENTRIES}.")] = _ENTRIES,
    ) -> Done:
        """List what is in a folder: folders first, then files with their sizes."""
        spot, most = workspace.spot(path or "."), min(max_entries, _MOST_ENTRIES)
        found = _below(spot, most + 1, recursive, lambda entry: True, include_hidden, lambda: ctx.cancelled)
        some = list(islice(found, most + 1))
        text = "\n".join(_line(spot, *one) for one in some[:most]) or "(the folder is empty)"
        if len(some) > most:
            text += f"\n\n(cut after {most} entries. List a folder below, or look for names with `glob`.)"
        metadata = {"path": spot.shown, "entryCount": len(some[:most]), "truncated": len(some) > most}
        return Done(text, title=f"Listed {spot.shown}", metadata=metadata)

    @tool(**facets(workspace, "read", "path", listed=names == "long", examples=[{"path": "src", "pattern": "*.py"}]))
    def list_files(
        ctx: Context,
        path: FolderPath = ".",
        recursive: Annotated[bool, Field(description="The folders below too, but not hidden ones.")] = False,
        pattern: Annotated[str | None, Field(description="Only what fits a glob, such as *.py or src/**/*.py.")] = None,
        limit: Annotated[int, Field(ge=1, description=f"At most {_MOST_FILES}.")] = _FILES,
    ) -> dict[str, Any]:
        """List the files and folders in a folder, as records with their sizes."""
        spot, most = workspace.spot(path or "."), min(limit, _MOST_FILES)
        room = (_LOOKED_AT if pattern else most) + 1
        found = _below(spot, room, recursive, _is_open, True, lambda: ctx.cancelled)
        glob = Glob(pattern) if pattern else None
        fitting = (one for one in islice(found, _LOOKED_AT) if glob is None or _fits(glob, _from(spot, one[0])))
        some = list(islice(fitting, most + 1))
        files = [_record(*one) for one in some[:most]]
        where = {"path": spot.shown, "recursive": recursive, "count": len(files)}
        return {"files": files, **where, "truncated": len(some) > most or next(found, None) is not None}

    return [list_, list_files]


def _is_open(entry: Entry) -> bool:
    return not entry.name.startswith(".")


def _below(
    spot: Spot, most: int, recursive: bool, enter: Callable[[Entry], bool], hidden: bool, stop: Callable[[], bool]
) -> Iterator[Found]:
    """What is in a folder, and then in the folders in it: what is near comes first."""
    folders = deque([spot])
    while folders:
        folder = folders.popleft()
        for entry in _scanned(folder, most, hidden, is_first=folder is spot):
            yield folder / entry.name, entry
            if recursive and entry.is_folder and enter(entry):
                folders.append(folder / entry.name)
        if stop():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


def _scanned(folder: Spot, most: int, hidden: bool, *, is_first: bool) -> list[Entry]:
    try:
        flags = 0 if is_first else os.O_NOFOLLOW
        return folder.scan(most=most, folders_first=True, hidden=hidden, flags=flags)
    except ToolError:
        if not is_first:
            return []  # gone, or not to be entered
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise InvalidArguments(f"{told(folder)} is a file, not a folder. Read it, or name a folder.") from None
        raise


def _from(spot: Spot, found: Spot) -> tuple[str, ...]:
    return found.parts[len(spot.parts) :]


def _fits(glob: Glob, path: tuple[str, ...]) -> bool:
    base = len(glob.base)
    return path[:base] == glob.base and glob("/".join(path[base:]))


def _line(spot: Spot, found: Spot, entry: Entry) -> str:
    name = escape_line("/".join(_from(spot, found)))
    return f"{name}/" if entry.is_folder else f"{name}  (link)" if entry.is_link else f"{name}  {size(entry.size)}"


def _record(found: Spot, entry: Entry) -> dict[str, Any]:
    return {"name": escape_line(entry.name), "path": found.shown, "isDir": entry.is_folder, "size": entry.size}
