"""Scope: which files a search looks at."""

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
"""Bytes of the largest file that is searched."""
MAX_DEPTH = 100
"""Folders within folders that are looked into."""
_GLOB_CHARACTERS = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The files below a folder that fit a glob."""

    base_path: WorkspacePath
    glob: GlobPattern
    includes_sensitive: bool
    """Whether sensitive files belong to it: a person was asked about this very path."""
    is_cancelled: Callable[[], bool]
    """Whether nobody waits for the result any more."""
    is_empty: bool = False
    """Whether there is no such folder as the glob names."""

    def raise_if_cancelled(self) -> None:
        """Raise once nobody waits any more."""
        if self.is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")

    def resolve(self, parts: tuple[str, ...]) -> WorkspacePath:
        """A place by its path from the root."""
        return replace(self.base_path, parts=parts)

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether a file, by its path from the root, is asked for."""
        below = parts[len(self.base_path.parts) :]
        return not below or self.glob("/".join(below))  # the start itself is, if it is a file

    def select_matching(self, paths: list[str]) -> list[str]:
        """Those that are asked for, of paths from the root that ripgrep has chosen already as well as it can."""
        glob, length = self.glob, sum(len(part) + 1 for part in self.base_path.parts)
        if glob.is_name_only or (
            glob.matches_everything and not glob.matches_hidden
        ):  # only rules that bring hidden names back are left
            return [path for path in paths if "/." not in f"/{path[length:]}"]
        return [path for path in paths if glob(path[length:]) or len(path) < length]

    def is_private(self, parts: tuple[str, ...]) -> bool:
        """Whether a file, by its path from the root, is nobody's to read."""
        protected = self.base_path.workspace.protected_paths
        return bool(protected.private) and protected.forbids_reading((*self.base_path.root.path.parts[1:], *parts))

    def is_excluded(self, names: Iterable[str]) -> bool:
        """Whether any of these names keeps a file out of the search."""
        return not self.includes_sensitive and self.base_path.workspace.has_sensitive_name(names)

    def excluded_path_finder(self) -> Callable[[list[str]], set[str]]:
        """Finds the paths among many that are kept out of the search; a name is looked at only once."""
        harmless, secret = set[str](), set[str]()

        def among(paths: list[str]) -> set[str]:
            names = set("/".join(paths).split("/")) - harmless
            secret.update(name for name in names if self.is_excluded((name,)))
            harmless.update(names - secret)
            return {path for path in paths if not secret.isdisjoint(path.split("/"))} if secret else set()

        return among


def build_search_scope(workspace: Workspace, path: str, pattern: str, is_cancelled: Callable[[], bool]) -> SearchScope:
    """The files below a path that fit a pattern; raises where the path is no folder."""
    if "\0" in pattern or not pattern.strip():
        raise InvalidArguments(f"'{escape_line(pattern, 200)}' is no pattern for files. Write one such as '**/*.py'.")
    given = workspace.resolve(path)
    everything = given.is_sensitive
    if pattern.startswith("/"):
        folder, pattern = _split_absolute_pattern(pattern)
        given, everything = workspace.resolve(folder), False  # nobody was asked about a folder that a pattern names
    glob = GlobPattern(pattern)
    start = _resolve_directory(given)
    try:
        inner = _resolve_directory(replace(start, parts=(*start.parts, *glob.base_parts))) if glob.base_parts else start
    except (NotFound, InvalidArguments):
        return SearchScope(start, glob, everything, is_cancelled, is_empty=True)
    return SearchScope(inner, glob, everything, is_cancelled)


def _resolve_directory(path: WorkspacePath) -> WorkspacePath:
    """A folder without links on its path."""
    real = path.resolve_links()
    with real.open_context(os.O_RDONLY | os.O_DIRECTORY):
        return real


def is_directory(path: WorkspacePath) -> bool:
    """Whether a path leads to a folder."""
    return S_ISDIR(path.stat().st_mode)


def _split_absolute_pattern(pattern: str) -> tuple[str, str]:
    """The folder that an absolute pattern names, and the pattern from there."""
    segments = pattern.split("/")
    first = next((at for at, segment in enumerate(segments) if _GLOB_CHARACTERS & set(segment)), len(segments) - 1)
    return "/".join(segments[:first]) or "/", "/".join(["", *segments[first:]])
