"""Finds the most recently changed files of a search scope, for the `glob` tools."""

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
"""Directories kept open: ripgrep's threads list several directories at a time."""


@dataclass(slots=True)
class NewestFiles:
    """The newest files of a scope, and the number of all its files."""

    paths: list[str]
    total: int
    skipped_sensitive: int


def find_newest_files(scope: SearchScope, limit: int) -> NewestFiles:
    """The newest files of a scope; files with equal times are sorted by name."""
    if ripgrep.is_available() and not scope.is_empty:
        try:
            return newest_by_ripgrep(scope, limit)
        except ripgrep.RipgrepUnavailable as error:
            log.warning("Listed files without ripgrep: %s", error)
    return newest_by_walking(scope, limit)


def newest_by_walking(scope: SearchScope, limit: int) -> NewestFiles:
    """Find the newest files in this process."""
    found: list[tuple[int, str]] = []
    skipped_sensitive = 0
    for file in python_search.walk_files(scope):
        if file.is_excluded:
            skipped_sensitive += 1
            continue
        modified = file.modified_ns()
        if modified is not None:
            found.append((-modified, file.path))
    paths = [path for _, path in nsmallest(limit, found)]
    return NewestFiles(paths, len(found), skipped_sensitive)


def newest_by_ripgrep(scope: SearchScope, limit: int) -> NewestFiles:
    """Find the newest files with ripgrep, which lists them by time."""
    paths: list[str] = []
    skipped_sensitive = 0
    find_excluded = scope.excluded_path_finder()
    with closing(ripgrep_search.list_paths(scope)) as batches:
        for batch in batches:
            excluded = find_excluded(batch)
            skipped_sensitive += len(excluded)
            paths += [path for path in batch if path not in excluded] if excluded else batch
    return NewestFiles(_latest_paths(scope, paths, limit), len(paths), skipped_sensitive)


def _latest_paths(scope: SearchScope, paths: list[str], limit: int) -> list[str]:
    """The first `limit` paths by time and then by name.

    ripgrep leaves the order of files with equal times open, so the times are read again, for the first paths and all
    that are as new as the last of them.
    """
    found: list[tuple[int, str]] = []
    with _directory_cache(scope) as open_directory:
        for path in paths:
            directory, _, name = path.rpartition("/")
            try:
                status = os.stat(name, dir_fd=open_directory(directory), follow_symlinks=False)
            except OSError:
                continue  # deleted meanwhile
            if len(found) >= limit and -status.st_mtime_ns > found[limit - 1][0]:
                break
            found.append((-status.st_mtime_ns, path))
    return [path for _, path in sorted(found)[:limit]]


@contextmanager
def _directory_cache(scope: SearchScope) -> Iterator[Callable[[str], int]]:
    """A function that opens directories beneath the root and keeps the last ones open."""
    descriptors: dict[str, int] = {}

    def open_directory(path: str) -> int:
        descriptor = descriptors.get(path)
        if descriptor is None:
            if len(descriptors) >= _MAX_OPEN_DIRECTORIES:
                oldest = next(iter(descriptors))
                os.close(descriptors.pop(oldest))  # a dictionary keeps the order in which they were opened
            parts = path.split("/") if path else ()
            descriptor = open_beneath(scope.base_path.root.descriptor, parts, os.O_RDONLY | os.O_DIRECTORY)
            descriptors[path] = descriptor
        return descriptor

    try:
        yield open_directory
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
