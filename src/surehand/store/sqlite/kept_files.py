"""Keeps every file of a SQLite store in its place while a sandbox masks it.

A sandbox masks a file by a mount at its name, so the name has to exist, and when a process deletes the file the kernel
removes the mount: a command could then put a journal of its own there, which SQLite would play back. The sandbox calls
`keep_store_files` before it starts a command.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path

from surehand.core.private_paths import OWNERS_FOLDER_SUFFIX, STORE_FILE_SUFFIXES
from surehand.store.database import StoreUnavailable

_OPEN_TIMEOUT_SECONDS = 5.0
_MIN_DATABASE_BYTES = 512
"""Size of the smallest page of SQLite."""


@dataclass(slots=True)
class _KeptStore:
    """A store whose files are kept_store, with a connection to it."""

    connection: sqlite3.Connection | None
    """None if the file is not a database."""
    inode: tuple[int, int]
    """Device and inode: a store that was replaced is another one."""
    holders: int = 0
    """Sandboxes that need the files."""


_kept_stores: dict[Path, _KeptStore] = {}
_lock = threading.Lock()


def keep_store_files(store: Path) -> tuple[list[Path], Callable[[], None]]:
    """Create what is missing of a store's files and keep them there; returns them, and a function that ends it.

    SQLite deletes the write-ahead log when the last connection is closed, so that one connection stays open.
    """
    with _lock:
        try:
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (store.parent / f"{store.name}{OWNERS_FOLDER_SUFFIX}").mkdir(mode=0o700, exist_ok=True)
            _create_if_missing(store)
            kept_store = _find_kept_store(store)
            for suffix in STORE_FILE_SUFFIXES:
                _create_if_missing(store.with_name(f"{store.name}{suffix}"))
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{store} cannot be protected from commands: {error}.") from error
        kept_store.holders += 1
    files = [store, *sorted(store.parent.glob(f"{escape(store.name)}-*"))]
    return files, partial(_release, store, kept_store)


def _release(store: Path, kept_store: _KeptStore) -> None:
    with _lock:
        kept_store.holders -= 1
        if kept_store.holders == 0:
            if _kept_stores.get(store) is kept_store:
                del _kept_stores[store]
            if kept_store.connection is not None:
                kept_store.connection.close()


def _find_kept_store(store: Path) -> _KeptStore:
    status = store.stat()
    inode = (status.st_dev, status.st_ino)
    kept_store = _kept_stores.get(store)
    if kept_store is None or kept_store.inode != inode:
        is_database = not 0 < status.st_size < _MIN_DATABASE_BYTES
        kept_store = _kept_stores[store] = _KeptStore(_connect(store) if is_database else None, inode)
    return kept_store


def _connect(store: Path) -> sqlite3.Connection | None:
    connection = sqlite3.connect(store, isolation_level=None, timeout=_OPEN_TIMEOUT_SECONDS, check_same_thread=False)
    try:
        # As `database.py` does for a new file. Once the file has a write-ahead log, both statements change nothing.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the write-ahead log
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise
        return None  # not a database: SQLite refuses it, whatever is beside it
    return connection


def _create_if_missing(path: Path) -> None:
    # Only a new file: closing a descriptor of an existing one would release SQLite's locks on it (see `database.py`).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
