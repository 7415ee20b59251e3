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
from heapq import nsmallest
from typing import BinaryIO

from surehand.core.errors import Denied, ToolError
from surehand.workspace.beneath import rename_without_replacing
from surehand.workspace.os_errors import refuse_irregular


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


_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UNNAMED_FILE_FLAG = getattr(os, "O_TMPFILE", 0)
_MAX_DELETE_DEPTH = 400
"""Folders in folders that are deleted at once: each takes a descriptor meanwhile."""


@dataclass(frozen=True, slots=True)
class OpenedEntry:
    """A name, and the descriptor of the folder that it is in."""

    directory_descriptor: int
    name: str
    display_path: str
    """Its path, as errors name it."""

    def stat(self) -> os.stat_result:
        """What it is; links are links."""
        return os.stat(self.name, dir_fd=self.directory_descriptor, follow_symlinks=False)

    def stat_or_none(self) -> os.stat_result | None:
        """The same, or None where there is nothing."""
        try:
            return self.stat()
        except FileNotFoundError:
            return None

    def write_atomically(
        self, data: bytes, current_stat: os.stat_result | None, expected_stat: os.stat_result | None
    ) -> None:
        """Put new content in place, whole or not at all; nothing if it is no longer what was expected."""
        if current_stat is not None:
            refuse_irregular(self.display_path, current_stat)
            self._refuse_hard_links(current_stat)
        self._refuse_changed(expected_stat)
        self._write_through_temporary(
            lambda file: file.write(data), current_stat, partial(self._rename_if_unchanged, expected_stat)
        )

    def _rename_if_unchanged(
        self, expected_stat: os.stat_result | None, old: str, new: str, **directory_descriptors: int
    ) -> None:
        self._refuse_changed(expected_stat)  # again: writing and syncing took its time
        os.rename(old, new, **directory_descriptors)

    def _write_through_temporary(
        self, write_content: Callable[[BinaryIO], object], like_stat: os.stat_result | None, move: Callable[..., None]
    ) -> None:
        """A new file under a name of its own, which then takes this one."""
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = self._open_unnamed_file()
        if descriptor is None:
            descriptor = os.open(temporary, _NEW_FILE_FLAGS, 0o666, dir_fd=self.directory_descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _copy_owner_and_mode(descriptor, like_stat)
                write_content(file)
                file.flush()
                os.fsync(descriptor)
                if not os.fstat(descriptor).st_nlink:
                    os.link(
                        f"/proc/self/fd/{descriptor}",
                        temporary,
                        dst_dir_fd=self.directory_descriptor,
                        follow_symlinks=True,
                    )
            move(temporary, self.name, src_dir_fd=self.directory_descriptor, dst_dir_fd=self.directory_descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.directory_descriptor)
            raise

    def _open_unnamed_file(self) -> int | None:
        """A file without a name, of which nothing is left should the process be killed; None where there is none."""
        if not (_UNNAMED_FILE_FLAG and os.path.exists("/proc/self/fd")):
            return None
        try:
            return os.open(
                ".", os.O_WRONLY | _UNNAMED_FILE_FLAG | os.O_CLOEXEC, 0o666, dir_fd=self.directory_descriptor
            )
        except OSError:
            return None  # not every file system can; what else is wrong will show again

    def remove(self, *, recursive: bool, is_cancelled: Callable[[], bool]) -> None:
        """Take a file or an empty folder away; a folder with all that is in it only when asked to."""
        if not stat.S_ISDIR(self.stat().st_mode):
            os.unlink(self.name, dir_fd=self.directory_descriptor)
            return
        if recursive:
            self._delete_content(self.directory_descriptor, self.name, is_cancelled)
        os.rmdir(self.name, dir_fd=self.directory_descriptor)

    def _delete_content(self, parent: int, name: str, is_cancelled: Callable[[], bool], depth: int = 1) -> None:
        """Links are taken away, never followed: `O_NOFOLLOW`, whatever stood there a moment ago."""
        if depth > _MAX_DELETE_DEPTH:
            problem = f"{self.display_path} has folders more than {_MAX_DELETE_DEPTH} deep."
            raise ToolError(f"{problem} A part of it is gone; delete the deepest folders first.")
        folder = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
        try:
            with os.scandir(folder) as found:
                items = [(item.name, item.is_dir(follow_symlinks=False)) for item in found]
            for inner, is_folder in items:
                if is_cancelled():
                    raise ToolError(f"Stopped while {self.display_path} was being deleted: a part of it is gone.")
                with suppress(FileNotFoundError):  # somebody else was quicker
                    if is_folder:
                        self._delete_content(folder, inner, is_cancelled, depth + 1)
                        os.rmdir(inner, dir_fd=folder)
                    else:
                        os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)

    def move(self, destination: OpenedEntry, *, overwrite: bool) -> None:
        """To another name, which may be on another file system."""
        move = os.rename if overwrite else rename_without_replacing
        try:
            move(
                self.name,
                destination.name,
                src_dir_fd=self.directory_descriptor,
                dst_dir_fd=destination.directory_descriptor,
            )
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_and_delete(destination, move)

    def _copy_and_delete(self, destination: OpenedEntry, move: Callable[..., None]) -> None:
        """A copy, and then the original goes."""
        refuse_irregular(self.display_path, self.stat(), "On another file system only files can be moved to: ")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self.name, flags, dir_fd=self.directory_descriptor), "rb") as content:
            found = os.fstat(content.fileno())
            refuse_irregular(self.display_path, found)
            destination._write_through_temporary(lambda file: shutil.copyfileobj(content, file, 1 << 20), found, move)
        os.unlink(self.name, dir_fd=self.directory_descriptor)

    def _refuse_changed(self, expected_stat: os.stat_result | None) -> None:
        now = self.stat_or_none() if expected_stat is not None else None
        if expected_stat is not None and (now is None or not _is_same_version(now, expected_stat)):
            raise ToolError(
                f"{self.display_path} was changed by somebody else meanwhile. Read it again.", code="conflict"
            )

    def _refuse_hard_links(self, file_stat: os.stat_result) -> None:
        if file_stat.st_nlink > 1:
            raise Denied(
                f"Permission denied: {self.display_path} has {file_stat.st_nlink} names (hard links), and not all may be in the "
                "workspace. Write to a new file instead."
            )


def _copy_owner_and_mode(descriptor: int, like_stat: os.stat_result | None) -> None:
    """The owner and the mode of the file whose place it takes."""
    if like_stat is not None:
        with suppress(PermissionError):  # somebody else's file, which we may write all the same
            os.fchown(descriptor, like_stat.st_uid, like_stat.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like_stat.st_mode) & 0o777)


def _is_same_version(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)
