"""Scope: which files a search looks at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from stat import S_ISDIR

from surehand.builtin.globs import Glob
from surehand.builtin.spot import Spot
from surehand.builtin.workspace import Workspace
from surehand.core.errors import InvalidArguments, NotFound, ToolError
from surehand.core.sanitize import escape_line

LARGEST = 50_000_000
"""Bytes of the largest file that is searched."""
DEEPEST = 100
"""Folders within folders that are looked into."""
_PATTERN = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class Scope:
    """The files below a folder that fit a glob."""

    start: Spot
    glob: Glob
    everything: bool
    """Whether sensitive files belong to it: a person was asked about this very path."""
    stop: Callable[[], bool]
    """Whether nobody waits for the result any more."""
    empty: bool = False
    """Whether there is no such folder as the glob names."""

    def check(self) -> None:
        """Raise once nobody waits any more."""
        if self.stop():
            raise ToolError("Nobody waits for this any more.", code="cancelled")

    def spot(self, parts: tuple[str, ...]) -> Spot:
        """A place by its path from the root."""
        return replace(self.start, parts=parts)

    def fits(self, parts: tuple[str, ...]) -> bool:
        """Whether a file, by its path from the root, is asked for."""
        below = parts[len(self.start.parts) :]
        return not below or self.glob("/".join(below))  # the start itself is, if it is a file

    def chosen(self, paths: list[str]) -> list[str]:
        """Those that are asked for, of paths from the root that ripgrep has chosen already as well as it can."""
        glob, length = self.glob, sum(len(part) + 1 for part in self.start.parts)
        if glob.by_name or (glob.everything and not glob.hidden):  # only rules that bring hidden names back are left
            return [path for path in paths if "/." not in f"/{path[length:]}"]
        return [path for path in paths if glob(path[length:]) or len(path) < length]

    def private(self, parts: tuple[str, ...]) -> bool:
        """Whether a file, by its path from the root, is nobody's to read."""
        protected = self.start.workspace.protected
        return bool(protected.private) and protected.hides((*self.start.root.path.parts[1:], *parts))

    def secret(self, names: Iterable[str]) -> bool:
        """Whether any of these names keeps a file out of the search."""
        return not self.everything and self.start.workspace.sensitive(names)

    def secrets(self) -> Callable[[list[str]], set[str]]:
        """Finds the paths among many that are kept out of the search; a name is looked at only once."""
        harmless, secret = set[str](), set[str]()

        def among(paths: list[str]) -> set[str]:
            names = set("/".join(paths).split("/")) - harmless
            secret.update(name for name in names if self.secret((name,)))
            harmless.update(names - secret)
            return {path for path in paths if not secret.isdisjoint(path.split("/"))} if secret else set()

        return among


def scope(workspace: Workspace, path: str, pattern: str, stop: Callable[[], bool]) -> Scope:
    """The files below a path that fit a pattern; raises where the path is no folder."""
    if "\0" in pattern or not pattern.strip():
        raise InvalidArguments(f"'{escape_line(pattern, 200)}' is no pattern for files. Write one such as '**/*.py'.")
    given = workspace.spot(path)
    everything = given.is_sensitive
    if pattern.startswith("/"):
        folder, pattern = _absolute(pattern)
        given, everything = workspace.spot(folder), False  # nobody was asked about a folder that a pattern names
    glob = Glob(pattern)
    start = _folder(given)
    try:
        inner = _folder(replace(start, parts=(*start.parts, *glob.base))) if glob.base else start
    except (NotFound, InvalidArguments):
        return Scope(start, glob, everything, stop, empty=True)
    return Scope(inner, glob, everything, stop)


def _folder(spot: Spot) -> Spot:
    """A folder without links on its path."""
    real = spot.real()
    with real.opened(os.O_RDONLY | os.O_DIRECTORY):
        return real


def is_folder(spot: Spot) -> bool:
    """Whether a path leads to a folder."""
    return S_ISDIR(spot.stat().st_mode)


def _absolute(pattern: str) -> tuple[str, str]:
    """The folder that an absolute pattern names, and the pattern from there."""
    segments = pattern.split("/")
    first = next((at for at, segment in enumerate(segments) if _PATTERN & set(segment)), len(segments) - 1)
    return "/".join(segments[:first]) or "/", "/".join(["", *segments[first:]])
