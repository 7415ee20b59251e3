"""Owner locks of SQLite: a runtime holds one while it runs, so that others see at once when its process has died.

The lock files are in a folder of their own beside the database, `calls.db-owners`, which a sandbox can mask as a whole.
The folder stays there: if it were deleted, the masks of running commands would go with it.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Collection
from contextlib import suppress
from glob import escape, glob

from surehand.core.private_paths import OWNERS_FOLDER_SUFFIX
from surehand.store.database import StoreUnavailable, validate_owner

if sys.platform != "win32":
    import fcntl


class InMemoryOwnerLocks:
    """The locks of a database in memory, which no other process can see."""

    def __init__(self) -> None:
        self._owners: set[str] = set()

    def acquire(self, owner: str) -> None:
        self._owners.add(validate_owner(owner))

    def release(self, owner: str) -> None:
        self._owners.discard(owner)

    def live_owners(self, owners: Collection[str]) -> set[str]:
        return self._owners.intersection(owners)

    def close(self) -> None:
        self._owners.clear()


class FileOwnerLocks:
    """A locked file for each owner. The kernel releases the lock however the process ends."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.realpath(path) + OWNERS_FOLDER_SUFFIX
        self._descriptors: dict[str, int] = {}
        self._is_registered_at_fork = False

    def acquire(self, owner: str) -> None:
        if validate_owner(owner) in self._descriptors:
            return
        self._register_at_fork()
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            self._remove_stale_files()
            self._descriptors[owner] = _create_locked_file(self._lock_path(owner))
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be acquired: {error.strerror}.") from error

    def release(self, owner: str) -> None:
        if (descriptor := self._descriptors.pop(owner, None)) is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._lock_path(owner))
            os.close(descriptor)

    def live_owners(self, owners: Collection[str]) -> set[str]:
        return {owner for owner in owners if self._is_live(validate_owner(owner))}

    def _is_live(self, owner: str) -> bool:
        try:
            return _is_locked(self._lock_path(owner))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be checked: {error.strerror}.") from error

    def close(self) -> None:
        for owner in list(self._descriptors):
            self.release(owner)

    def _remove_stale_files(self) -> None:
        """Remove lock files of owners that died before they had a row in the database."""
        for file in glob(f"{escape(self._folder)}/*[0-9a-f]"):
            with suppress(FileNotFoundError):  # another process removed it first
                _is_locked(file)

    def _lock_path(self, owner: str) -> str:
        return os.path.join(self._folder, owner)

    def _register_at_fork(self) -> None:
        """Close the locks in forked children: a child shares the `flock`, and would keep the lock of a dead parent."""
        if not self._is_registered_at_fork and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_CloseAfterFork(self))
        self._is_registered_at_fork = True

    def close_inherited(self) -> None:
        """Close the inherited descriptors without unlocking or removing the files: the parent still holds the locks."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


class _CloseAfterFork:
    """The fork handler: Python never unregisters it, so it must not keep the locks in memory."""

    def __init__(self, locks: FileOwnerLocks) -> None:
        self._locks = weakref.ref(locks)

    def __call__(self) -> None:
        if files := self._locks():
            files.close_inherited()


if sys.platform == "win32":

    def _create_locked_file(file: str) -> int:
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)

    def _is_locked(file: str) -> bool:
        return True  # not detectable on Windows: leases alone decide

else:

    def _create_locked_file(file: str) -> int:
        # Created under another name and locked before the rename, so that other processes never see it unlocked.
        unfinished = f"{file}.new"
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(unfinished, file)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _is_locked(file: str) -> bool:
        descriptor = os.open(file, os.O_RDWR)
        try:
            # A shared lock, so that two processes that check at the same time do not take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with suppress(FileNotFoundError):  # owner ids are never reused, so this cannot be a new lock
                os.unlink(file)
            return False
        finally:
            os.close(descriptor)
