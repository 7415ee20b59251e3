"""Entry: what a folder holds under one name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from heapq import nsmallest


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a folder, and what is there; links are shown as links."""

    name: str
    is_directory: bool
    is_link: bool
    size: int
    modified_at: float


def scan_entries(
    directory: int, *, limit: int | None, directories_first: bool, include_hidden: bool
) -> list[DirectoryEntry]:
    """What an open folder holds, by name; only the first ones are looked at closely."""
    with os.scandir(directory) as found:
        items = found if include_hidden else (item for item in found if not item.name.startswith("."))
        order = _directories_first_order if directories_first else _name_order
        chosen = sorted(items, key=order) if limit is None else nsmallest(limit, items, key=order)
        return [entry for item in chosen if (entry := _to_directory_entry(item))]


def _name_order(item: os.DirEntry[str]) -> tuple[bool, str]:
    return False, item.name


def _directories_first_order(item: os.DirEntry[str]) -> tuple[bool, str]:
    return not item.is_dir(follow_symlinks=False), item.name


def _to_directory_entry(item: os.DirEntry[str]) -> DirectoryEntry | None:
    try:
        found = item.stat(follow_symlinks=False)
    except OSError:
        return None  # gone since it was listed
    is_folder = item.is_dir(follow_symlinks=False)
    return DirectoryEntry(item.name, is_folder, item.is_symlink(), 0 if is_folder else found.st_size, found.st_mtime)
