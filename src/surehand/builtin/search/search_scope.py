"""SearchScope: which files a search looks at. Built from a path and a glob, used by all searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from stat import S_ISDIR

from surehand.builtin.search.globs import GlobPattern
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.sanitize import escape_line
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

MAX_FILE_BYTES = 50_000_000
"""Larger files are not searched."""
MAX_DEPTH = 100
"""Nested directories below the start of a search."""
_GLOB_CHARACTERS = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The files below a directory that match a glob. File paths are relative to the workspace root."""

    base_path: WorkspacePath
    glob: GlobPattern
    includes_sensitive: bool
    """Whether sensitive files are searched: only if a person approved this path."""
    is_cancelled: Callable[[], bool]
    is_empty: bool = False
    """Whether the directory that the glob names does not exist."""

    def raise_if_cancelled(self) -> None:
        """Raise `ToolError` once the call is cancelled."""
        if self.is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")

    def resolve(self, parts: tuple[str, ...]) -> WorkspacePath:
        """The workspace path of a file."""
        return replace(self.base_path, parts=parts)

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether the scope contains a file."""
        below = parts[len(self.base_path.parts) :]
        return not below or self.glob("/".join(below))  # nothing below: the base path itself is the file

    def select_matching(self, paths: list[str]) -> list[str]:
        """The paths of the scope, out of those that ripgrep listed with the options it has."""
        glob = self.glob
        length = sum(len(part) + 1 for part in self.base_path.parts)
        if glob.is_name_only or (glob.matches_everything and not glob.matches_hidden):
            # ripgrep has matched the names; only hidden files that a `!` rule of .gitignore brought back remain.
            return [path for path in paths if "/." not in f"/{path[length:]}"]
        return [path for path in paths if glob(path[length:]) or len(path) < length]

    def is_private(self, parts: tuple[str, ...]) -> bool:
        """Whether no tool may read the file."""
        protected = self.base_path.workspace.protected_paths
        return protected.has_private_paths() and protected.forbids_reading(
            (*self.base_path.root.path.parts[1:], *parts)
        )

    def is_excluded(self, names: Iterable[str]) -> bool:
        """Whether one of the names is sensitive and excludes a file from the search."""
        return not self.includes_sensitive and self.base_path.workspace.has_sensitive_name(names)

    def excluded_path_finder(self) -> Callable[[list[str]], set[str]]:
        """A function that finds the excluded paths among many; it checks each name only once."""
        harmless: set[str] = set()
        sensitive: set[str] = set()

        def find_excluded(paths: list[str]) -> set[str]:
            names = set("/".join(paths).split("/")) - harmless
            sensitive.update(name for name in names if self.is_excluded((name,)))
            harmless.update(names - sensitive)
            if not sensitive:
                return set()
            return {path for path in paths if not sensitive.isdisjoint(path.split("/"))}

        return find_excluded


def build_search_scope(workspace: Workspace, path: str, pattern: str, is_cancelled: Callable[[], bool]) -> SearchScope:
    """The files below a directory that match a pattern; raises if the path is no directory."""
    if "\0" in pattern or not pattern.strip():
        raise InvalidArguments(f"'{escape_line(pattern, 200)}' is no pattern for files. Write one such as '**/*.py'.")
    start = workspace.resolve(path)
    includes_sensitive = start.is_sensitive
    if pattern.startswith("/"):
        directory, pattern = _split_absolute_pattern(pattern)
        start = workspace.resolve(directory)
        includes_sensitive = False  # the person was asked about `path`, not about a directory in the pattern
    glob = GlobPattern(pattern)
    start = _resolve_directory(start)
    if not glob.base_parts:
        return SearchScope(start, glob, includes_sensitive, is_cancelled)
    try:
        base_path = _resolve_directory(replace(start, parts=(*start.parts, *glob.base_parts)))
    except (NotFound, InvalidArguments):
        return SearchScope(start, glob, includes_sensitive, is_cancelled, is_empty=True)
    return SearchScope(base_path, glob, includes_sensitive, is_cancelled)


def _resolve_directory(path: WorkspacePath) -> WorkspacePath:
    """The directory's path with links resolved; raises if it is no directory."""
    real_path = path.resolve_links()
    with real_path.open_context(os.O_RDONLY | os.O_DIRECTORY):
        return real_path


def is_directory(path: WorkspacePath) -> bool:
    """Whether a path leads to a directory."""
    return S_ISDIR(path.stat().st_mode)


def _split_absolute_pattern(pattern: str) -> tuple[str, str]:
    """The directory that an absolute pattern begins with, and the pattern below it."""
    segments = pattern.split("/")
    with_glob = (index for index, segment in enumerate(segments) if _GLOB_CHARACTERS & set(segment))
    first = next(with_glob, len(segments) - 1)
    return "/".join(segments[:first]) or "/", "/".join(["", *segments[first:]])
