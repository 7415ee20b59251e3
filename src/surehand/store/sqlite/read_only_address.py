"""The address under which SQLite reads a store where nothing can be written, for example on a read-only disk.

`SqliteDatabase` uses it for stores that are opened read-only. It changes nothing beside the file; where SQLite needs
more, it reads a temporary copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from urllib.parse import quote

from surehand.store.database import StoreUnavailable

_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class ReadOnlyAddress:
    """The address under which SQLite can read a file, and the temporary folder that this may need."""

    def __init__(self, path: str) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if not os.access(path, os.R_OK):
            raise StoreUnavailable(f"{path} cannot be read.")
        self.uri = _uri(path, "mode=ro")
        if not is_read_only_file(path) and _can_read(self.uri):
            return
        if not _has_log(path):
            # Without a log, the file alone is the database. `immutable` lets SQLite read it without any lock file.
            self.uri = _uri(path, "mode=ro&immutable=1")
            return
        # SQLite reads a log only together with an index file beside it, which it cannot create here.
        self._folder = tempfile.TemporaryDirectory(prefix="surehand-")
        copy = os.path.join(self._folder.name, "store.db")
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, copy + suffix)
        self.uri = _uri(copy, "mode=rw")

    def close(self) -> None:
        """Remove the temporary folder."""
        if self._folder is not None:
            self._folder.cleanup()


def is_read_only_file(path: str) -> bool:
    """Whether a store cannot be written: its file, or the folder where SQLite keeps the files beside it."""
    if not os.path.exists(path):
        return False
    folder = os.path.dirname(os.path.abspath(path))
    # The modes too: root may write everywhere, but what has no write permission at all is meant to stay as it is.
    has_write_bits = all(os.stat(each).st_mode & _WRITE_BITS for each in (path, folder))
    return not (has_write_bits and os.access(path, os.W_OK) and os.access(folder, os.W_OK | os.X_OK))


def _uri(path: str, options: str) -> str:
    return f"file:{quote(os.path.abspath(path))}?{options}"


def _has_log(path: str) -> bool:
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


def _can_read(uri: str) -> bool:
    try:
        connection = sqlite3.connect(uri, uri=True)
    except sqlite3.Error:
        return False
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return False
    finally:
        connection.close()
    return True
