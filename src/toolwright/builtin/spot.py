"""Spot: a place in a workspace. Everything that happens there happens beneath its root's descriptor."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from toolwright.builtin.beneath import open_beneath, path_of, rename_new
from toolwright.builtin.entry import Entry, entries
from toolwright.builtin.shown import shown
from toolwright.builtin.trouble import told, trouble
from toolwright.core.errors import Denied, InvalidArguments, NotFound, ToolError

if TYPE_CHECKING:
    from toolwright.builtin.workspace import Root, Workspace

__all__ = ["Entry", "Spot"]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_DEEPEST = 400
"""Folders in folders that are deleted at once: each takes a descriptor meanwhile."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a workspace, which may or may not exist."""

    workspace: Workspace
    root: Root
    parts: tuple[str, ...]

    @property
    def shown(self) -> str:
        """As models are shown it: relative to the main root, or absolute in a folder elsewhere."""
        label = (self.root.label,) if self.root.label else ()
        return shown("/".join((*label, *self.parts)) or ".")

    @property
    def name(self) -> str:
        """Its last name."""
        return self.parts[-1] if self.parts else self.root.path.name

    @property
    def is_sensitive(self) -> bool:
        """Whether a name on its path looks like keys or credentials."""
        return self.workspace.sensitive(self.parts)

    def __truediv__(self, name: str) -> Spot:
        return replace(self, parts=(*self.parts, name))

    @property
    def parent(self) -> Spot:
        """The folder it lies in."""
        return replace(self, parts=self.parts[:-1])

    # Looking

    def open(self, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """A descriptor, which the caller closes."""
        with self._explained():
            descriptor = open_beneath(self.root.descriptor, self.parts, flags, mode)
        try:
            self._refuse_hidden_secret(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def opened(self, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A descriptor, closed afterwards."""
        descriptor = self.open(flags)
        try:
            with self._explained():
                yield descriptor
        finally:
            os.close(descriptor)

    def reader(self) -> BinaryIO:
        """A regular file, open for reading; anything else is refused."""
        descriptor = self.open()
        try:
            self._refuse_irregular(os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def stat(self) -> os.stat_result:
        """Size, times and kind of what a path leads to."""
        with self.opened(_O_PATH) as descriptor:
            return os.fstat(descriptor)

    def exists(self) -> bool:
        """Whether there is anything that can be looked at."""
        try:
            self.stat()
        except NotFound:
            return False
        return True

    def real(self) -> Spot:
        """The same place without links on its path; itself where nothing is there, or the system does not say."""
        try:
            with self.opened(_O_PATH) as descriptor:
                inside = self._parts_of(descriptor)
        except NotFound:
            return self
        return self if inside is None else replace(self, parts=inside)

    def scan(
        self, *, most: int | None = None, folders_first: bool = False, hidden: bool = True, flags: int = 0
    ) -> list[Entry]:
        """What a folder holds, by name; links are shown as links."""
        with self.opened(_FOLDER | flags) as folder:
            return entries(folder, most=most, folders_first=folders_first, hidden=hidden)

    def names(self, most: int) -> list[str]:
        """Some of the names in a folder, in no order; raises `OSError`, for it is what errors are explained with."""
        folder = open_beneath(self.root.descriptor, self.parts, _FOLDER)
        try:
            self._refuse_hidden_secret(folder)
            with os.scandir(folder) as found:
                return [item.name for item in islice(found, most)]
        finally:
            os.close(folder)

    def walk(self, *, hidden: bool = False) -> Iterator[tuple[Spot, Entry]]:
        """Everything below a folder; links are not followed, and what vanishes meanwhile is left out."""
        folders = [self]
        while folders:
            folder = folders.pop()
            try:
                found = folder.scan(hidden=hidden, flags=0 if folder is self else os.O_NOFOLLOW)
            except ToolError:
                if folder is self:
                    raise
                continue
            inside = [(folder / entry.name, entry) for entry in found]
            yield from inside
            folders += [spot for spot, entry in reversed(inside) if entry.is_folder]

    # Changing

    def check_writable(self) -> None:
        """Refuse where nothing may be changed."""
        if not self.workspace.writes:
            raise Denied("Permission denied: changing files is switched off in this workspace.")
        if not self.root.writable:
            raise self._read_only()

    def replace(self, data: bytes, *, expected: os.stat_result | None = None) -> bool:
        """Put new content in place, whole or not at all; folders on the way are made. True if there was a file before.

        Args:
            expected: what the file was when it was read; if it has changed since, nothing is written.
        """
        with self._changing(make=True) as folder:
            before = self._before(folder)
            if before is not None and stat.S_ISLNK(before.st_mode):
                return self._target().replace(data, expected=expected)
            if before is not None:
                self._refuse_irregular(before)
                self._refuse_other_names(before)
            self._refuse_changed(folder, expected)
            self._put(folder, lambda file: file.write(data), before, partial(self._replace, expected))
            return before is not None

    def _replace(
        self, expected: os.stat_result | None, old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int
    ) -> None:
        self._refuse_changed(dst_dir_fd, expected)  # again: writing and syncing took its time
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def _refuse_changed(self, folder: int, expected: os.stat_result | None) -> None:
        now = self._before(folder) if expected is not None else None
        if expected is not None and (now is None or not _same(now, expected)):
            raise ToolError(f"{told(self)} was changed by somebody else meanwhile. Read it again.", code="conflict")

    def _put(
        self, folder: int, fill: Callable[[BinaryIO], object], like: os.stat_result | None, move: Callable[..., None]
    ) -> None:
        """A new file under a name of its own, which then takes the place's name."""
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if like is not None:
                    with suppress(PermissionError):  # somebody else's file, which we may write all the same
                        os.fchown(descriptor, like.st_uid, like.st_gid)
                    os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
                fill(file)
                file.flush()
                os.fsync(descriptor)
            move(temporary, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def remove(self, *, recursive: bool = False, stop: Callable[[], bool] = _never) -> None:
        """Take a file or an empty folder away; a folder with all that is in it only when asked to."""
        with self._changing(whole=True) as folder:
            before = os.stat(self.name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(before.st_mode):
                os.unlink(self.name, dir_fd=folder)
                return
            if recursive:
                self._clear(folder, self.name, stop)
            os.rmdir(self.name, dir_fd=folder)

    def _clear(self, outer: int, name: str, stop: Callable[[], bool], depth: int = 1) -> None:
        """Links are taken away, never followed: `O_NOFOLLOW`, whatever stood there a moment ago."""
        if depth > _DEEPEST:
            problem = f"{told(self)} has folders more than {_DEEPEST} deep."
            raise ToolError(f"{problem} A part of it is gone; delete the deepest folders first.")
        folder = os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
        try:
            with os.scandir(folder) as found:
                items = [(item.name, item.is_dir(follow_symlinks=False)) for item in found]
            for inner, is_folder in items:
                if stop():
                    raise ToolError(f"Stopped while {told(self)} was being deleted: a part of it is gone.")
                with suppress(FileNotFoundError):  # somebody else was quicker
                    if is_folder:
                        self._clear(folder, inner, stop, depth + 1)
                        os.rmdir(inner, dir_fd=folder)
                    else:
                        os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)

    def rename(self, to: Spot, *, overwrite: bool = False) -> None:
        """Move a file or folder; what is already there stays unless it may be overwritten."""
        to.check_writable()
        with self._changing(whole=True) as old:
            before = os.stat(self.name, dir_fd=old, follow_symlinks=False)
            with to._changing(make=True, whole=True) as new:
                move = os.rename if overwrite else rename_new
                try:
                    move(self.name, to.name, src_dir_fd=old, dst_dir_fd=new)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    self._carry(old, to, new, before, move)

    def _carry(self, old: int, to: Spot, new: int, before: os.stat_result, move: Callable[..., None]) -> None:
        """To another file system: a copy, and then the original goes."""
        self._refuse_irregular(before, "On another file system only files can be moved to: ")
        source = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=old)
        with os.fdopen(source, "rb") as content:
            self._refuse_irregular(os.fstat(source))
            to._put(new, lambda file: shutil.copyfileobj(content, file, 1 << 20), before, move)
        os.unlink(self.name, dir_fd=old)

    # What keeps it inside and safe

    @contextmanager
    def _changing(self, *, make: bool = False, whole: bool = False) -> Iterator[int]:
        """The descriptor of the folder around it: whatever is done through it is done inside the root."""
        self.check_writable()
        if not self.parts:
            raise Denied("Permission denied: the root of the workspace itself stays as it is. Name something in it.")
        with self._explained():
            descriptor = self._make_folders() if make else self._folder(self.parts[:-1])
            try:
                self._refuse_hidden_secret(descriptor, self.name)
                self._refuse_read_only(descriptor, whole=whole)
                yield descriptor
            finally:
                os.close(descriptor)

    def _folder(self, parts: tuple[str, ...]) -> int:
        return open_beneath(self.root.descriptor, parts, _FOLDER)

    def _make_folders(self) -> int:
        """The folder around it, made as far as it is not there yet."""
        parts, missing = self.parts[:-1], list[str]()
        while True:
            try:
                folder = self._folder(parts)
                break
            except FileNotFoundError:
                if not parts:
                    raise
                parts, missing = parts[:-1], [parts[-1], *missing]
        self._refuse_hidden_secret(folder, *missing, self.name)
        for name in missing:
            folder, outer = self._make_folder(folder, name), folder
            os.close(outer)
        return folder

    def _make_folder(self, outer: int, name: str) -> int:
        try:
            self._refuse_read_only(outer)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=outer)
            # What somebody else put there meanwhile may be a link, and is not followed.
            return os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
        except BaseException:
            os.close(outer)
            raise

    def _before(self, folder: int) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _target(self) -> Spot:
        """What a link leads to, so that the link stays and its target is changed."""
        inside = self.real()
        if inside.parts == self.parts:
            raise Denied(f"Permission denied: {told(self)} is a link. Name the file that it leads to.")
        return inside

    def _parts_of(self, descriptor: int) -> tuple[str, ...] | None:
        """Where an open file really lies below the root, links resolved; None where the system does not say."""
        real, base = path_of(descriptor), path_of(self.root.descriptor)
        if real is None or base is None:
            return None
        base = base.rstrip("/")
        if real != base and not real.startswith(f"{base}/"):
            return None
        return tuple(part for part in real[len(base) :].split("/") if part)

    def _refuse_hidden_secret(self, descriptor: int, *rest: str) -> None:
        """A link may not lead, under another name, to what a person would have been asked about."""
        inside = self._parts_of(descriptor)
        if inside is None:
            return
        inside = (*inside, *rest)
        if inside != self.parts and self.workspace.sensitive(inside):  # by its own name, and so a person was asked
            real = told(replace(self, parts=inside))
            raise Denied(f"Permission denied: {told(self)} leads to {real}, which is sensitive. Ask for {real} itself.")

    def _refuse_read_only(self, descriptor: int, *, whole: bool = False) -> None:
        """A link may not lead into a folder that is only read; nor may a root go with the folder around it."""
        if len(self.workspace.folders) == 1 or (inside := self._parts_of(descriptor)) is None:
            return
        real = (*self.root.path.parts[1:], *inside, self.name)
        if (found := self.workspace.innermost(real[:-1])) is not None and not found[0].writable:
            raise self._read_only()
        if whole and any(root.path.parts[1 : len(real) + 1] == real for root in self.workspace.folders):
            raise Denied(f"Permission denied: {told(self)} holds a folder of the workspace, which stays as it is.")

    def _read_only(self) -> Denied:
        return Denied(f"Permission denied: {told(self)} is in a folder that may only be read.")

    def _refuse_irregular(self, found: os.stat_result, why: str = "") -> None:
        if stat.S_ISDIR(found.st_mode):
            raise InvalidArguments(f"{why}{told(self)} is a folder. Use `list` to see what is in it, or name a file.")
        if not stat.S_ISREG(found.st_mode):
            raise InvalidArguments(f"{why}{told(self)} is a {_kind(found.st_mode)}, not a regular file.")

    def _refuse_other_names(self, found: os.stat_result) -> None:
        if found.st_nlink > 1:
            raise Denied(
                f"Permission denied: {told(self)} has {found.st_nlink} names (hard links), and not all may be in the "
                "workspace. Write to a new file instead."
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise trouble(self, error) from None


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)


def _kind(mode: int) -> str:
    for test, word in ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link")):
        if test(mode):
            return word
    return "device"
