"""Held: a name in an open folder. What is done to it is done in that folder, wherever its path leads by then."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from surehand.builtin.beneath import rename_new
from surehand.builtin.trouble import refuse_irregular
from surehand.core.errors import Denied, ToolError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_DEEPEST = 400
"""Folders in folders that are deleted at once: each takes a descriptor meanwhile."""


@dataclass(frozen=True, slots=True)
class Held:
    """A name, and the descriptor of the folder that it is in."""

    folder: int
    name: str
    told: str
    """Its path, as errors name it."""

    def stat(self) -> os.stat_result:
        """What it is; links are links."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def before(self) -> os.stat_result | None:
        """The same, or None where there is nothing."""
        try:
            return self.stat()
        except FileNotFoundError:
            return None

    def replace(self, data: bytes, before: os.stat_result | None, expected: os.stat_result | None) -> None:
        """Put new content in place, whole or not at all; nothing if it is no longer what was expected."""
        if before is not None:
            refuse_irregular(self.told, before)
            self._refuse_other_names(before)
        self._refuse_changed(expected)
        self._put(lambda file: file.write(data), before, partial(self._rename, expected))

    def _rename(self, expected: os.stat_result | None, old: str, new: str, **folders: int) -> None:
        self._refuse_changed(expected)  # again: writing and syncing took its time
        os.rename(old, new, **folders)

    def _put(self, fill: Callable[[BinaryIO], object], like: os.stat_result | None, move: Callable[..., None]) -> None:
        """A new file under a name of its own, which then takes this one."""
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = self._unnamed()
        if descriptor is None:
            descriptor = os.open(temporary, _NEW, 0o666, dir_fd=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _make_like(descriptor, like)
                fill(file)
                file.flush()
                os.fsync(descriptor)
                if not os.fstat(descriptor).st_nlink:
                    os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=self.folder, follow_symlinks=True)
            move(temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.folder)
            raise

    def _unnamed(self) -> int | None:
        """A file without a name, of which nothing is left should the process be killed; None where there is none."""
        if not (_UNNAMED and os.path.exists("/proc/self/fd")):
            return None
        try:
            return os.open(".", os.O_WRONLY | _UNNAMED | os.O_CLOEXEC, 0o666, dir_fd=self.folder)
        except OSError:
            return None  # not every file system can; what else is wrong will show again

    def remove(self, *, recursive: bool, stop: Callable[[], bool]) -> None:
        """Take a file or an empty folder away; a folder with all that is in it only when asked to."""
        if not stat.S_ISDIR(self.stat().st_mode):
            os.unlink(self.name, dir_fd=self.folder)
            return
        if recursive:
            self._clear(self.folder, self.name, stop)
        os.rmdir(self.name, dir_fd=self.folder)

    def _clear(self, outer: int, name: str, stop: Callable[[], bool], depth: int = 1) -> None:
        """Links are taken away, never followed: `O_NOFOLLOW`, whatever stood there a moment ago."""
        if depth > _DEEPEST:
            problem = f"{self.told} has folders more than {_DEEPEST} deep."
            raise ToolError(f"{problem} A part of it is gone; delete the deepest folders first.")
        folder = os.open(name, _FOLDER, dir_fd=outer)
        try:
            with os.scandir(folder) as found:
                items = [(item.name, item.is_dir(follow_symlinks=False)) for item in found]
            for inner, is_folder in items:
                if stop():
                    raise ToolError(f"Stopped while {self.told} was being deleted: a part of it is gone.")
                with suppress(FileNotFoundError):  # somebody else was quicker
                    if is_folder:
                        self._clear(folder, inner, stop, depth + 1)
                        os.rmdir(inner, dir_fd=folder)
                    else:
                        os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)

    def move(self, to: Held, *, overwrite: bool) -> None:
        """To another name, which may be on another file system."""
        move = os.rename if overwrite else rename_new
        try:
            move(self.name, to.name, src_dir_fd=self.folder, dst_dir_fd=to.folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._carry(to, move)

    def _carry(self, to: Held, move: Callable[..., None]) -> None:
        """A copy, and then the original goes."""
        refuse_irregular(self.told, self.stat(), "On another file system only files can be moved to: ")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self.name, flags, dir_fd=self.folder), "rb") as content:
            found = os.fstat(content.fileno())
            refuse_irregular(self.told, found)
            to._put(lambda file: shutil.copyfileobj(content, file, 1 << 20), found, move)
        os.unlink(self.name, dir_fd=self.folder)

    def _refuse_changed(self, expected: os.stat_result | None) -> None:
        now = self.before() if expected is not None else None
        if expected is not None and (now is None or not _same(now, expected)):
            raise ToolError(f"{self.told} was changed by somebody else meanwhile. Read it again.", code="conflict")

    def _refuse_other_names(self, found: os.stat_result) -> None:
        if found.st_nlink > 1:
            raise Denied(
                f"Permission denied: {self.told} has {found.st_nlink} names (hard links), and not all may be in the "
                "workspace. Write to a new file instead."
            )


def _make_like(descriptor: int, like: os.stat_result | None) -> None:
    """The owner and the mode of the file whose place it takes."""
    if like is not None:
        with suppress(PermissionError):  # somebody else's file, which we may write all the same
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)
