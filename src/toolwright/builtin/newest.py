"""Newest: the files of a scope by the time they were changed, the latest first."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from heapq import nsmallest

from toolwright.builtin import places, ripgrep, walker
from toolwright.builtin.beneath import open_beneath
from toolwright.builtin.scope import Scope

log = logging.getLogger("toolwright")
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
            return _newest(_by_ripgrep(scope), most)
        except ripgrep.NotRun as error:
            log.warning("Files are listed without ripgrep: %s", error)
    return _newest(_by_walking(scope), most)


def _newest(files: Iterator[tuple[int, str] | None], most: int) -> Newest:
    found, left_out = list[tuple[int, str]](), 0
    for file in files:
        if file is None:
            left_out += 1
        else:
            found.append(file)
    return Newest([path for _, path in nsmallest(most, found)], len(found), left_out)


def _by_walking(scope: Scope) -> Iterator[tuple[int, str] | None]:
    """How long ago each file was changed, so to say; None for one that is left out."""
    for file in walker.walk(scope):
        if file.secret:
            yield None
        elif (modified := file.modified()) is not None:
            yield -modified, file.path


def _by_ripgrep(scope: Scope) -> Iterator[tuple[int, str] | None]:
    secrets = scope.secrets()
    with _folders(scope) as folder, closing(places.paths(scope)) as listed:
        for paths in listed:
            secret = secrets(paths)
            for path in paths:
                if path in secret:
                    yield None
                elif (modified := _modified(path, folder)) is not None:
                    yield -modified, path


def _modified(path: str, folder: Callable[[str], int]) -> int | None:
    outer, _, name = path.rpartition("/")
    try:
        return os.stat(name, dir_fd=folder(outer), follow_symlinks=False).st_mtime_ns
    except OSError:
        return None  # gone meanwhile


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
