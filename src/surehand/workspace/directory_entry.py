"""Entries of an open directory: listing them, and writing, deleting or moving one.

Every operation names the entry relative to the directory's descriptor, so it stays in that directory even if another
process renames the directory meanwhile. Used by `path.py`, which checks what may be changed.
"""

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

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UNNAMED_FILE_FLAG = getattr(os, "O_TMPFILE", 0)
_MAX_DELETE_DEPTH = 400
"""Nested directories in one deletion: each level holds a descriptor open."""
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a directory with its status; a link is described itself, not its target."""

    name: str
    is_directory: bool
    is_link: bool
    size: int
    modified_at: float


def scan_entries(
    directory: int, *, limit: int | None, directories_first: bool, include_hidden: bool
) -> list[DirectoryEntry]:
    """The entries of an open directory in order; only the first `limit` of them are examined with `stat`."""
    with os.scandir(directory) as iterator:
        items = iterator if include_hidden else (item for item in iterator if not item.name.startswith("."))
        order = _directories_first_order if directories_first else _name_order
        chosen = sorted(items, key=order) if limit is None else nsmallest(limit, items, key=order)
        entries = [_to_directory_entry(item) for item in chosen]
    return [entry for entry in entries if entry is not None]


def _name_order(item: os.DirEntry[str]) -> tuple[bool, str]:
    return False, item.name


def _directories_first_order(item: os.DirEntry[str]) -> tuple[bool, str]:
    return not item.is_dir(follow_symlinks=False), item.name


def _to_directory_entry(item: os.DirEntry[str]) -> DirectoryEntry | None:
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:
        return None  # deleted since it was listed
    is_directory = item.is_dir(follow_symlinks=False)
    size = 0 if is_directory else status.st_size
    return DirectoryEntry(item.name, is_directory, item.is_symlink(), size, status.st_mtime)


@dataclass(frozen=True, slots=True)
class OpenedEntry:
    """A name, and the descriptor of the directory that it is in. The entry itself may not exist yet."""

    directory_descriptor: int
    name: str
    display_path: str
    """The path for error messages."""

    def stat(self) -> os.stat_result:
        """The entry's status; links are not followed."""
        return os.stat(self.name, dir_fd=self.directory_descriptor, follow_symlinks=False)

    def stat_or_none(self) -> os.stat_result | None:
        """The entry's status, or None if it does not exist."""
        try:
            return self.stat()
        except FileNotFoundError:
            return None

    def write_atomically(
        self, data: bytes, current_stat: os.stat_result | None, expected_stat: os.stat_result | None
    ) -> None:
        """Replace the content, all of it or nothing; raise `conflict` if the file is not the expected version."""
        if current_stat is not None:
            self.refuse_irreplaceable(current_stat)
        self._refuse_changed(expected_stat)
        self._write_through_temporary(
            lambda file: file.write(data), current_stat, partial(self._rename_if_unchanged, expected_stat)
        )

    def refuse_irreplaceable(self, current_stat: os.stat_result) -> None:
        """Raise for an existing entry whose content cannot be replaced."""
        refuse_irregular(self.display_path, current_stat)
        self._refuse_hard_links(current_stat)

    def _rename_if_unchanged(
        self, expected_stat: os.stat_result | None, old: str, new: str, **directory_descriptors: int
    ) -> None:
        self._refuse_changed(expected_stat)  # a second time: writing and syncing took a while
        os.rename(old, new, **directory_descriptors)

    def _write_through_temporary(
        self, write_content: Callable[[BinaryIO], object], like_stat: os.stat_result | None, move: Callable[..., None]
    ) -> None:
        """Write a temporary file in the same directory, sync it, and move it to this name."""
        directory = self.directory_descriptor
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = self._open_unnamed_file()
        if descriptor is None:
            descriptor = os.open(temporary, _NEW_FILE_FLAGS, 0o666, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _copy_owner_and_mode(descriptor, like_stat)
                write_content(file)
                file.flush()
                os.fsync(descriptor)
                if not os.fstat(descriptor).st_nlink:
                    # linkat(2) gives an O_TMPFILE file its first name by way of /proc.
                    os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=directory, follow_symlinks=True)
            # rename(2) replaces the old file in one step: a reader sees the old content or the new, never a part.
            move(temporary, self.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise

    def _open_unnamed_file(self) -> int | None:
        """Open a file without a name, which the kernel removes if the process dies; None if unsupported."""
        if not (_UNNAMED_FILE_FLAG and os.path.exists("/proc/self/fd")):
            return None
        flags = os.O_WRONLY | _UNNAMED_FILE_FLAG | os.O_CLOEXEC
        try:
            return os.open(".", flags, 0o666, dir_fd=self.directory_descriptor)
        except OSError:
            return None  # not every file system supports it; any other problem recurs with the named file

    def remove(self, *, recursive: bool, is_cancelled: Callable[[], bool]) -> None:
        """Delete a file or an empty directory; with `recursive`, a directory and everything in it."""
        if not stat.S_ISDIR(self.stat().st_mode):
            os.unlink(self.name, dir_fd=self.directory_descriptor)
            return
        if recursive:
            self._delete_content(self.directory_descriptor, self.name, is_cancelled)
        os.rmdir(self.name, dir_fd=self.directory_descriptor)

    def _delete_content(self, parent: int, name: str, is_cancelled: Callable[[], bool], depth: int = 1) -> None:
        """Delete everything in a directory; links are deleted and never followed."""
        if depth > _MAX_DELETE_DEPTH:
            problem = f"{self.display_path} has folders more than {_MAX_DELETE_DEPTH} deep."
            raise ToolError(f"{problem} A part of it is gone; delete the deepest folders first.")
        # _DIRECTORY_FLAGS has O_NOFOLLOW: another process may have put a link there since the directory was listed.
        directory = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
        try:
            with os.scandir(directory) as iterator:
                items = [(item.name, item.is_dir(follow_symlinks=False)) for item in iterator]
            for item_name, is_directory in items:
                if is_cancelled():
                    raise ToolError(f"Stopped while {self.display_path} was being deleted: a part of it is gone.")
                with suppress(FileNotFoundError):  # another process deleted it first
                    if is_directory:
                        self._delete_content(directory, item_name, is_cancelled, depth + 1)
                        os.rmdir(item_name, dir_fd=directory)
                    else:
                        os.unlink(item_name, dir_fd=directory)
        finally:
            os.close(directory)

    def move(self, destination: OpenedEntry, *, overwrite: bool) -> None:
        """Rename the entry, or copy and delete it if the destination is on another file system."""
        move = os.rename if overwrite else rename_without_replacing
        source_directory = self.directory_descriptor
        target_directory = destination.directory_descriptor
        try:
            move(self.name, destination.name, src_dir_fd=source_directory, dst_dir_fd=target_directory)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_and_delete(destination, move)

    def _copy_and_delete(self, destination: OpenedEntry, move: Callable[..., None]) -> None:
        refuse_irregular(self.display_path, self.stat(), "On another file system only files can be moved to: ")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self.name, flags, dir_fd=self.directory_descriptor), "rb") as source:
            status = os.fstat(source.fileno())
            refuse_irregular(self.display_path, status)
            destination._write_through_temporary(
                lambda file: shutil.copyfileobj(source, file, _COPY_BYTES), status, move
            )
        os.unlink(self.name, dir_fd=self.directory_descriptor)

    def _refuse_changed(self, expected_stat: os.stat_result | None) -> None:
        if expected_stat is None:
            return
        current = self.stat_or_none()
        if current is None or not _is_same_version(current, expected_stat):
            raise ToolError(
                f"{self.display_path} was changed by somebody else meanwhile. Read it again.", code="conflict"
            )

    def _refuse_hard_links(self, file_stat: os.stat_result) -> None:
        if file_stat.st_nlink > 1:
            problem = f"{self.display_path} has {file_stat.st_nlink} names (hard links), and not all may be in the"
            raise Denied(f"Permission denied: {problem} workspace. Write to a new file instead.")


def _copy_owner_and_mode(descriptor: int, like_stat: os.stat_result | None) -> None:
    """Give the new file the owner and the mode of the file that it replaces."""
    if like_stat is not None:
        with suppress(PermissionError):  # a file of another user in a directory that we may write to
            os.fchown(descriptor, like_stat.st_uid, like_stat.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like_stat.st_mode) & 0o777)


def _is_same_version(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)
