"""File identity: notices that the SQLite file, or its write-ahead log, is no longer the one that this process opened.

A process keeps its open file when the file is deleted, moved or replaced. SQLite would go on committing into a file
that no other process sees and that may be gone at the next start, so the executors check before and after they commit.
"""

from __future__ import annotations

import os

from surehand.store.database import StoreUnavailable


class StoreFiles:
    """The database file and its write-ahead log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._paths = (path, f"{path}-wal")
        self._opened_files: tuple[tuple[int, int] | None, ...] = ()

    def remember(self) -> None:
        """Note which files are open now; SQLite has created both, and keeps them while a connection is open."""
        self._opened_files = self._current_files()

    def check(self) -> None:
        """Raise `StoreUnavailable` if a path leads to another file than the one that is open."""
        if self._opened_files and self._current_files() != self._opened_files:
            raise StoreUnavailable(
                f"{self._path} was deleted, moved or replaced while this process had it open. Nothing more is read "
                "from it or written to it. Put the file and its -wal back, or restart the program."
            )

    def _current_files(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple([_device_and_inode(path) for path in self._paths])


def _device_and_inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
