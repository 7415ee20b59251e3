"""The tools that list a directory: `list` gives lines for a model to read, `list_files` records."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.file_description import format_byte_count
from surehand.builtin.path_arguments import DirectoryPath, ToolNaming, path_tool_options, tools_by_naming
from surehand.builtin.search.gitignore import IgnoreRules
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

IncludeIgnored: TypeAlias = Annotated[bool, Field(description="With recursive: what git ignores, too.")]
FoundEntry: TypeAlias = tuple[WorkspacePath, DirectoryEntry]
_GIT_DIRECTORY = ".git"
_DEFAULT_ENTRIES = 200
_MAX_ENTRIES = 500
_DEFAULT_FILES = 200
_MAX_FILES = 2000
_MAX_ENTRIES_MATCHED = 200_000
"""Entries that `list_files` compares with a pattern, and those of one folder that are compared with git's rules."""


def list_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`list`, or `list_files`, or both."""

    def check(arguments: Mapping[str, Any], ctx: Context) -> None:
        directory = workspace.resolve(arguments["path"] or ".")
        _scan_directory(directory, 1, True, is_first=True)

    @tool(name="list", **path_tool_options(workspace, "read", "path", check=check))
    def list_(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below, too.")] = False,
        include_hidden: Annotated[bool, Field(description="Names that begin with a dot, too.")] = False,
        include_ignored: IncludeIgnored = False,
        max_entries: Annotated[int, Field(ge=1, description=f"At most {_MAX_ENTRIES}.")] = _DEFAULT_ENTRIES,
    ) -> Done:
        """List what is in a folder, or in all folders below it."""
        directory = workspace.resolve(path or ".")
        limit = min(max_entries, _MAX_ENTRIES)
        walk = DirectoryWalk(directory, limit + 1, recursive, include_hidden, include_ignored, lambda: ctx.cancelled)
        found = list(islice(walk.entries(), limit + 1))
        listed = found[:limit]
        is_truncated = len(found) > limit
        text = "\n".join(_render_entry(directory, *each) for each in listed) or "(the folder is empty)"
        if is_truncated:
            text += f"\n\n(cut after {limit} entries. List a folder below, or look for names with `glob`.)"
        elif walk.ignored_count:
            text += f"\n\n({walk.ignored_count:,} left out that git ignores. Set include_ignored=true to list them.)"
        metadata = {"path": directory.display_path, "entryCount": len(listed), "truncated": is_truncated}
        return Done(text, title=f"Listed {directory.display_path}", metadata=metadata)

    @tool(**path_tool_options(workspace, "read", "path", check=check))
    def list_files(
        ctx: Context,
        path: DirectoryPath = ".",
        recursive: Annotated[bool, Field(description="The folders below too, but not hidden ones.")] = False,
        pattern: Annotated[str | None, Field(description="Only what fits a glob, such as *.py or src/**/*.py.")] = None,
        limit: Annotated[int, Field(ge=1, description=f"At most {_MAX_FILES}.")] = _DEFAULT_FILES,
        include_ignored: IncludeIgnored = False,
    ) -> dict[str, Any]:
        """List what is in a folder, or in all folders below it."""
        directory = workspace.resolve(path or ".")
        limit = min(limit, _MAX_FILES)
        scan_limit = (_MAX_ENTRIES_MATCHED if pattern else limit) + 1
        walk = DirectoryWalk(
            directory, scan_limit, recursive, True, include_ignored, lambda: ctx.cancelled, enters_hidden=False
        )
        entries = walk.entries()
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
            **({"ignored": walk.ignored_count} if walk.ignored_count else {}),
        }

    return tools_by_naming(naming, list_, list_files)


@dataclass(slots=True)
class DirectoryWalk:
    """A walk through a directory and, if it is recursive, through those below it, without what git ignores."""

    start: WorkspacePath
    limit: int
    """Entries of one directory that are needed."""
    recursive: bool
    include_hidden: bool
    include_ignored: bool
    is_cancelled: Callable[[], bool]
    enters_hidden: bool = True
    ignored_count: int = 0
    """Entries that were left out because git ignores them, so far."""

    def entries(self) -> Iterator[FoundEntry]:
        """The entries of the directory, then those of its subdirectories: the nearest come first."""
        rules = IgnoreRules.above(self.start) if self._leaves_out_ignored else IgnoreRules()
        pending = deque([(self.start, rules)])
        while pending:
            directory, rules = pending.popleft()
            listing = self._scan(directory)
            if self._leaves_out_ignored:
                rules = self._rules_inside(directory, rules)
                listing = self._without_ignored(directory, listing, rules)
            for entry in listing:
                entry_path = directory / entry.name
                yield entry_path, entry
                if self.recursive and entry.is_directory and self._may_enter(entry.name):
                    pending.append((entry_path, rules))
            if self.is_cancelled():
                raise ToolError("Nobody waits for this any more.", code="cancelled")

    @property
    def _leaves_out_ignored(self) -> bool:
        return self.recursive and not self.include_ignored

    def _may_enter(self, name: str) -> bool:
        if name == _GIT_DIRECTORY and not self.include_ignored:
            return False
        return self.enters_hidden or not name.startswith(".")

    def _scan(self, directory: WorkspacePath) -> list[DirectoryEntry]:
        # The first entries by name may all be ignored, so there may be more to look at than to list.
        limit = _MAX_ENTRIES_MATCHED if self._leaves_out_ignored else self.limit
        return _scan_directory(directory, limit, self.include_hidden, is_first=directory is self.start)

    def _rules_inside(self, directory: WorkspacePath, rules: IgnoreRules) -> IgnoreRules:
        try:
            flags = 0 if directory is self.start else os.O_NOFOLLOW
            with directory.open_context(os.O_RDONLY | os.O_DIRECTORY | flags) as descriptor:
                return rules.for_directory(descriptor, len(directory.parts))
        except ToolError:
            return rules  # deleted meanwhile, or not readable

    def _without_ignored(
        self, directory: WorkspacePath, listing: list[DirectoryEntry], rules: IgnoreRules
    ) -> list[DirectoryEntry]:
        shown = [entry for entry in listing if not rules.ignores(directory.parts, entry.name, entry.is_directory)]
        self.ignored_count += len(listing) - len(shown)
        return shown


def _scan_directory(
    directory: WorkspacePath, limit: int, include_hidden: bool, *, is_first: bool
) -> list[DirectoryEntry]:
    # Only the directory that the caller named may be a link; one below may have been replaced by a link meanwhile.
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
