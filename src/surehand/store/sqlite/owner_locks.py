"""Owner locks: a runtime holds one while it lives, so that the others see at once when it died."""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Collection
from contextlib import suppress
from glob import escape, glob

from surehand.store.database import StoreUnavailable

if sys.platform != "win32":
    import fcntl

_OWNER_PATTERN = re.compile(r"[0-9a-f]+")


def validate_owner(owner: str) -> str:
    """An owner becomes part of a file's name: nothing but hexadecimal digits."""
    if not _OWNER_PATTERN.fullmatch(owner):
        raise ValueError(f"An owner is written in hexadecimal digits, not as {owner!r}.")
    return owner


class InMemoryOwnerLocks:
    """The locks of a database in memory: nobody else can see it, so nobody else can die."""

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
    """A locked file beside the database for each owner. The system lets go of it when its process ends, however."""

    def __init__(self, path: str) -> None:
        self._database_path = os.path.realpath(path)
        self._descriptors: dict[str, int] = {}
        self._is_registered_at_fork = False

    def acquire(self, owner: str) -> None:
        if validate_owner(owner) in self._descriptors:
            return
        self._register_at_fork()
        try:
            self._remove_stale_files()
            self._descriptors[owner] = _create_locked_file(self._lock_path(owner))
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be taken: {error.strerror}.") from error

    def release(self, owner: str) -> None:
        if (descriptor := self._descriptors.pop(owner, None)) is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._lock_path(owner))
            os.close(descriptor)

    def live_owners(self, owners: Collection[str]) -> set[str]:
        return {owner for owner in owners if self._is_alive(validate_owner(owner))}

    def _is_alive(self, owner: str) -> bool:
        try:
            return _is_locked(self._lock_path(owner))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be tried: {error.strerror}.") from error

    def close(self) -> None:
        for owner in list(self._descriptors):
            self.release(owner)

    def _remove_stale_files(self) -> None:
        """Files of owners who died before anybody knew of them."""
        for file in glob(f"{escape(self._database_path)}-owner-*[0-9a-f]"):
            with suppress(FileNotFoundError):  # somebody else did
                _is_locked(file)

    def _lock_path(self, owner: str) -> str:
        return f"{self._database_path}-owner-{owner}"

    def _register_at_fork(self) -> None:
        """A child started by exec inherits no lock, but a forked one does, and would keep its dead parent alive."""
        if not self._is_registered_at_fork and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_CloseAfterFork(self))
        self._is_registered_at_fork = True

    def close_inherited(self) -> None:
        """Close without unlocking or removing: the parent goes on."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


class _CloseAfterFork:
    """What is registered for a fork stays for good: it must not keep the locks themselves."""

    def __init__(self, locks: FileOwnerLocks) -> None:
        self._locks = weakref.ref(locks)

    def __call__(self) -> None:
        if files := self._locks():
            files.close_inherited()


if sys.platform == "win32":

    def _create_locked_file(file: str) -> int:
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)

    def _is_locked(file: str) -> bool:
        return True  # nothing tells: leases decide alone

else:

    def _create_locked_file(file: str) -> int:
        # Made under another name, so that it is locked from the moment on in which others can find it.
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
            # Shared, so that two who ask at the same time do not take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with suppress(FileNotFoundError):  # an owner's name is never used again, so this is nobody's new lock
                os.unlink(file)
            return False
        finally:
            os.close(descriptor)
