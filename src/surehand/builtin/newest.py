"""Newest: the files of a scope by the time they were changed, the latest first."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from heapq import nsmallest

from surehand.builtin import places, ripgrep, walker
from surehand.builtin.beneath import open_beneath
from surehand.builtin.scope import Scope

log = logging.getLogger("surehand")
_KEPT = 16
"""Folders that are kept open: files are listed folder by folder, by several threads at once."""


@dataclass(slots=True)
class Newest:
    """The latest files, and how many there are."""

    paths: list[str]
    total: int
    left_out: int


def newest(scope: Scope, most: int) -> Newest:
    """All files are looked at, then the latest are taken; of equal ones the first by name."""
    if ripgrep.works() and not scope.empty:
        try:
            return by_ripgrep(scope, most)
        except ripgrep.NotRun as error:
            log.warning("Files are listed without ripgrep: %s", error)
    return by_walking(scope, most)


def by_walking(scope: Scope, most: int) -> Newest:
    """The same, found by this process itself."""
    found, left_out = list[tuple[int, str]](), 0
    for file in walker.walk(scope):
        left_out += file.secret
        if not file.secret and (modified := file.modified()) is not None:
            found.append((-modified, file.path))
    return _newest(found, left_out, most)


def by_ripgrep(scope: Scope, most: int) -> Newest:
    """The same: ripgrep lists and sorts; times of the latest are asked for again, for of equal ones it takes any."""
    paths, left_out, secrets = list[str](), 0, scope.secrets()
    with closing(places.paths(scope)) as listed:
        for some in listed:
            secret = secrets(some)
            left_out += len(secret)
            paths += [path for path in some if path not in secret] if secret else some
    return Newest(_latest(scope, paths, most), len(paths), left_out)


def _latest(scope: Scope, paths: list[str], most: int) -> list[str]:
    """The first ones, and all that are as new as the last of them, by time and then by name."""
    found = list[tuple[int, str]]()
    with _folders(scope) as folder:
        for path in paths:
            outer, _, name = path.rpartition("/")
            try:
                status = os.stat(name, dir_fd=folder(outer), follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if len(found) >= most and -status.st_mtime_ns > found[most - 1][0]:
                break
            found.append((-status.st_mtime_ns, path))
    return [path for _, path in sorted(found)[:most]]


def _newest(found: list[tuple[int, str]], left_out: int, most: int) -> Newest:
    return Newest([path for _, path in nsmallest(most, found)], len(found), left_out)


@contextmanager
def _folders(scope: Scope) -> Iterator[Callable[[str], int]]:
    """Opens folders beneath the root, and keeps those that were asked for last."""
    opened: dict[str, int] = {}

    def folder(path: str) -> int:
        if (known := opened.get(path)) is None:
            if len(opened) >= _KEPT:
                os.close(opened.pop(next(iter(opened))))
            flags = os.O_RDONLY | os.O_DIRECTORY
            known = opened[path] = open_beneath(scope.start.root.descriptor, path.split("/") if path else (), flags)
        return known

    try:
        yield folder
    finally:
        for descriptor in opened.values():
            os.close(descriptor)
