"""Newest: the files of a scope by the time they were changed, the latest first."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from heapq import nsmallest

from surehand.builtin.search import python_search, ripgrep, ripgrep_search
from surehand.builtin.search.search_scope import SearchScope
from surehand.workspace.beneath import open_beneath

log = logging.getLogger("surehand")
_MAX_OPEN_DIRECTORIES = 16
"""Folders that are kept open: files are listed folder by folder, by several threads at once."""


@dataclass(slots=True)
class NewestFiles:
    """The latest files, and how many there are."""

    paths: list[str]
    total: int
    skipped_sensitive: int


def find_newest_files(scope: SearchScope, limit: int) -> NewestFiles:
    """All files are looked at, then the latest are taken; of equal ones the first by name."""
    if ripgrep.is_available() and not scope.is_empty:
        try:
            return newest_by_ripgrep(scope, limit)
        except ripgrep.RipgrepUnavailable as error:
            log.warning("Files are listed without ripgrep: %s", error)
    return newest_by_walking(scope, limit)


def newest_by_walking(scope: SearchScope, limit: int) -> NewestFiles:
    """The same, found by this process itself."""
    found, left_out = list[tuple[int, str]](), 0
    for file in python_search.walk_files(scope):
        left_out += file.is_excluded
        if not file.is_excluded and (modified := file.modified_ns()) is not None:
            found.append((-modified, file.path))
    return _select_newest(found, left_out, limit)


def newest_by_ripgrep(scope: SearchScope, limit: int) -> NewestFiles:
    """The same: ripgrep lists and sorts; times of the latest are asked for again, for of equal ones it takes any."""
    paths, left_out, secrets = list[str](), 0, scope.excluded_path_finder()
    with closing(ripgrep_search.list_paths(scope)) as listed:
        for some in listed:
            secret = secrets(some)
            left_out += len(secret)
            paths += [path for path in some if path not in secret] if secret else some
    return NewestFiles(_latest_paths(scope, paths, limit), len(paths), left_out)


def _latest_paths(scope: SearchScope, paths: list[str], limit: int) -> list[str]:
    """The first ones, and all that are as new as the last of them, by time and then by name."""
    found = list[tuple[int, str]]()
    with _directory_cache(scope) as folder:
        for path in paths:
            outer, _, name = path.rpartition("/")
            try:
                status = os.stat(name, dir_fd=folder(outer), follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if len(found) >= limit and -status.st_mtime_ns > found[limit - 1][0]:
                break
            found.append((-status.st_mtime_ns, path))
    return [path for _, path in sorted(found)[:limit]]


def _select_newest(found: list[tuple[int, str]], skipped_sensitive: int, limit: int) -> NewestFiles:
    return NewestFiles([path for _, path in nsmallest(limit, found)], len(found), skipped_sensitive)


@contextmanager
def _directory_cache(scope: SearchScope) -> Iterator[Callable[[str], int]]:
    """Opens folders beneath the root, and keeps those that were asked for last."""
    opened: dict[str, int] = {}

    def folder(path: str) -> int:
        if (known := opened.get(path)) is None:
            if len(opened) >= _MAX_OPEN_DIRECTORIES:
                os.close(opened.pop(next(iter(opened))))
            flags = os.O_RDONLY | os.O_DIRECTORY
            known = opened[path] = open_beneath(scope.base_path.root.descriptor, path.split("/") if path else (), flags)
        return known

    try:
        yield folder
    finally:
        for descriptor in opened.values():
            os.close(descriptor)
