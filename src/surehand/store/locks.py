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

_OWNER = re.compile(r"[0-9a-f]+")


def check_owner(owner: str) -> str:
    """An owner becomes part of a file's name: nothing but hexadecimal digits."""
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"An owner is written in hexadecimal digits, not as {owner!r}.")
    return owner


class OwnerSet:
    """The locks of a database in memory: nobody else can see it, so nobody else can die."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def hold(self, owner: str) -> None:
        self._held.add(check_owner(owner))

    def let_go(self, owner: str) -> None:
        self._held.discard(owner)

    def alive(self, owners: Collection[str]) -> set[str]:
        return self._held.intersection(owners)

    def close(self) -> None:
        self._held.clear()


class OwnerFiles:
    """A locked file beside the database for each owner. The system lets go of it when its process ends, however."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._held: dict[str, int] = {}
        self._spares = False

    def hold(self, owner: str) -> None:
        if check_owner(owner) in self._held:
            return
        self._spare_forked_children()
        try:
            self._clear_away()
            self._held[owner] = _locked(self._file(owner))
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be taken: {error.strerror}.") from error

    def let_go(self, owner: str) -> None:
        if (descriptor := self._held.pop(owner, None)) is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._file(owner))
            os.close(descriptor)

    def alive(self, owners: Collection[str]) -> set[str]:
        return {owner for owner in owners if self._is_alive(check_owner(owner))}

    def _is_alive(self, owner: str) -> bool:
        try:
            return _is_locked(self._file(owner))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"The lock of {owner} cannot be tried: {error.strerror}.") from error

    def close(self) -> None:
        for owner in list(self._held):
            self.let_go(owner)

    def _clear_away(self) -> None:
        """Files of owners who died before anybody knew of them."""
        for file in glob(f"{escape(self._path)}-owner-*[0-9a-f]"):
            with suppress(FileNotFoundError):  # somebody else did
                _is_locked(file)

    def _file(self, owner: str) -> str:
        return f"{self._path}-owner-{owner}"

    def _spare_forked_children(self) -> None:
        """A child started by exec inherits no lock, but a forked one does, and would keep its dead parent alive."""
        if not self._spares and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_Forgetting(self))
        self._spares = True

    def forget(self) -> None:
        """Close without unlocking or removing: the parent goes on."""
        while self._held:
            os.close(self._held.popitem()[1])


class _Forgetting:
    """What is registered for a fork stays for good: it must not keep the locks themselves."""

    def __init__(self, files: OwnerFiles) -> None:
        self._files = weakref.ref(files)

    def __call__(self) -> None:
        if files := self._files():
            files.forget()


if sys.platform == "win32":

    def _locked(file: str) -> int:
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)

    def _is_locked(file: str) -> bool:
        return True  # nothing tells: leases decide alone

else:

    def _locked(file: str) -> int:
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
