"""FileChanges: notices that a file was changed, once whoever writes it has finished. Used by `surehand serve`."""

from __future__ import annotations

from pathlib import Path


class FileChanges:
    """The changes of a file that is looked at again and again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._last_seen = _file_version(path)

    def has_new_version(self) -> bool:
        """Whether the file has changed, and is as it was at the last look: before that, it may be half written."""
        newest = _file_version(self._path)
        is_settled = newest == self._last_seen
        self._last_seen = newest
        if not is_settled or newest in (self._known, None):
            return False
        self._known = newest
        return True

    def is_unchanged(self) -> bool:
        """Whether the file is still the version that was found last; what was read of another one may be half of it."""
        return _file_version(self._path) == self._known


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; None while there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
