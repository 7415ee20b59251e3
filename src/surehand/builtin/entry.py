"""Entry: what a folder holds under one name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from heapq import nsmallest


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder, and what is there; links are shown as links."""

    name: str
    is_folder: bool
    is_link: bool
    size: int
    modified: float


def entries(folder: int, *, most: int | None, folders_first: bool, hidden: bool) -> list[Entry]:
    """What an open folder holds, by name; only the first ones are looked at closely."""
    with os.scandir(folder) as found:
        items = found if hidden else (item for item in found if not item.name.startswith("."))
        order = _folders_first if folders_first else _by_name
        chosen = sorted(items, key=order) if most is None else nsmallest(most, items, key=order)
        return [entry for item in chosen if (entry := _entry(item))]


def _by_name(item: os.DirEntry[str]) -> tuple[bool, str]:
    return False, item.name


def _folders_first(item: os.DirEntry[str]) -> tuple[bool, str]:
    return not item.is_dir(follow_symlinks=False), item.name


def _entry(item: os.DirEntry[str]) -> Entry | None:
    try:
        found = item.stat(follow_symlinks=False)
    except OSError:
        return None  # gone since it was listed
    is_folder = item.is_dir(follow_symlinks=False)
    return Entry(item.name, is_folder, item.is_symlink(), 0 if is_folder else found.st_size, found.st_mtime)
