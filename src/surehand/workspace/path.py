"""Spot: a place in a workspace. Everything that happens there happens beneath its root's descriptor."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from surehand.core.errors import Denied, NotFound, ToolError
from surehand.core.sanitize import escape_line
from surehand.workspace.beneath import descriptor_path, open_beneath
from surehand.workspace.directory_entry import DirectoryEntry, OpenedEntry, scan_entries
from surehand.workspace.os_errors import path_for_message, refuse_irregular, to_tool_error

if TYPE_CHECKING:
    from surehand.workspace.workspace import Workspace, WorkspaceRoot

__all__ = ["DirectoryEntry", "WorkspacePath"]
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


def _never_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A place in a workspace, which may or may not exist."""

    workspace: Workspace
    root: WorkspaceRoot
    parts: tuple[str, ...]

    @property
    def display_path(self) -> str:
        """As models are shown it: relative to the main root, or absolute in a folder elsewhere."""
        label = (self.root.display_prefix,) if self.root.display_prefix else ()
        return escape_line("/".join((*label, *self.parts)) or ".")

    @property
    def name(self) -> str:
        """Its last name."""
        return self.parts[-1] if self.parts else self.root.path.name

    @property
    def is_sensitive(self) -> bool:
        """Whether a name on its path looks like keys or credentials."""
        return self.workspace.has_sensitive_name(self.parts)

    def __truediv__(self, name: str) -> WorkspacePath:
        return replace(self, parts=(*self.parts, name))

    @property
    def parent(self) -> WorkspacePath:
        """The folder it lies in."""
        return replace(self, parts=self.parts[:-1])

    # Looking

    def open_descriptor(self, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """A descriptor, which the caller closes."""
        with self._translate_os_errors():
            descriptor = open_beneath(self.root.descriptor, self.parts, flags, mode)
        try:
            self._refuse_sensitive_link_target(descriptor)
            self._refuse_private(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def open_context(self, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A descriptor, closed afterwards."""
        descriptor = self.open_descriptor(flags)
        try:
            with self._translate_os_errors():
                yield descriptor
        finally:
            os.close(descriptor)

    def open_reader(self) -> BinaryIO:
        """A regular file, open for reading; anything else is refused."""
        descriptor = self.open_descriptor()
        try:
            refuse_irregular(path_for_message(self), os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def stat(self) -> os.stat_result:
        """Size, times and kind of what a path leads to."""
        with self.open_context(_O_PATH) as descriptor:
            return os.fstat(descriptor)

    def exists(self) -> bool:
        """Whether there is anything that can be looked at."""
        try:
            self.stat()
        except NotFound:
            return False
        return True

    def resolve_links(self) -> WorkspacePath:
        """The same place without links on its path; itself where nothing is there, or the system does not say."""
        try:
            with self.open_context(_O_PATH) as descriptor:
                inside = self._real_parts(descriptor)
        except NotFound:
            return self
        return self if inside is None else replace(self, parts=inside)

    def scan_directory(
        self,
        *,
        limit: int | None = None,
        directories_first: bool = False,
        include_hidden: bool = True,
        extra_flags: int = 0,
    ) -> list[DirectoryEntry]:
        """What a folder holds, by name; links are shown as links."""
        with self.open_context(_DIRECTORY_FLAGS | extra_flags) as folder:
            return scan_entries(folder, limit=limit, directories_first=directories_first, include_hidden=include_hidden)

    def sample_names(self, limit: int) -> list[str]:
        """Some of the names in a folder, in no order; raises `OSError`, for it is what errors are explained with."""
        folder = open_beneath(self.root.descriptor, self.parts, _DIRECTORY_FLAGS)
        try:
            self._refuse_sensitive_link_target(folder)
            with os.scandir(folder) as found:
                return [item.name for item in islice(found, limit)]
        finally:
            os.close(folder)

    def walk(self, *, include_hidden: bool = False) -> Iterator[tuple[WorkspacePath, DirectoryEntry]]:
        """Everything below a folder; links are not followed, and what vanishes meanwhile is left out."""
        folders = [self]
        while folders:
            folder = folders.pop()
            try:
                found = folder.scan_directory(
                    include_hidden=include_hidden, extra_flags=0 if folder is self else os.O_NOFOLLOW
                )
            except ToolError:
                if folder is self:
                    raise
                continue
            inside = [(folder / entry.name, entry) for entry in found]
            yield from inside
            folders += [spot for spot, entry in reversed(inside) if entry.is_directory]

    # Changing

    def check_writable(self) -> None:
        """Refuse where nothing may be changed."""
        if not self.workspace.writes:
            raise Denied("Permission denied: changing files is switched off in this workspace.")
        if not self.root.writable:
            raise self._read_only_error()

    def write_atomically(self, data: bytes, *, expected_stat: os.stat_result | None = None) -> bool:
        """Put new content in place, whole or not at all; folders on the way are made. True if there was a file before.

        Args:
            expected: what the file was when it was read; if it has changed since, nothing is written.
        """
        with self._open_for_change(create_directories=True) as held:
            before = held.stat_or_none()
            if before is None or not stat.S_ISLNK(before.st_mode):
                held.write_atomically(data, before, expected_stat)
                return before is not None
        return self._link_target().write_atomically(data, expected_stat=expected_stat)

    def remove(self, *, recursive: bool = False, is_cancelled: Callable[[], bool] = _never_cancelled) -> None:
        """Take a file or an empty folder away; a folder with all that is in it only when asked to."""
        with self._open_for_change(whole_tree=True) as held:
            held.remove(recursive=recursive, is_cancelled=is_cancelled)

    def rename(self, destination: WorkspacePath, *, overwrite: bool = False) -> None:
        """Move a file or folder; what is already there stays unless it may be overwritten."""
        destination.check_writable()
        with self._open_for_change(whole_tree=True) as held:
            held.stat()  # before folders are made for it
            with destination._open_for_change(create_directories=True, whole_tree=True) as place:
                held.move(place, overwrite=overwrite)

    # What keeps it inside and safe

    @contextmanager
    def _open_for_change(self, *, create_directories: bool = False, whole_tree: bool = False) -> Iterator[OpenedEntry]:
        """Its name in the folder around it: whatever is done to that is done inside the root."""
        self.check_writable()
        if not self.parts:
            raise Denied("Permission denied: the root of the workspace itself stays as it is. Name something in it.")
        with self._translate_os_errors():
            descriptor = self._create_parents() if create_directories else self._open_directory(self.parts[:-1])
            try:
                self._refuse_sensitive_link_target(descriptor, self.name)
                self._refuse_read_only(descriptor, whole_tree=whole_tree)
                self._refuse_protected(descriptor, whole_tree=whole_tree)
                yield OpenedEntry(descriptor, self.name, path_for_message(self))
            finally:
                os.close(descriptor)

    def _open_directory(self, parts: tuple[str, ...]) -> int:
        return open_beneath(self.root.descriptor, parts, _DIRECTORY_FLAGS)

    def _create_parents(self) -> int:
        """The folder around it, made as far as it is not there yet."""
        parts, missing = self.parts[:-1], list[str]()
        while True:
            try:
                folder = self._open_directory(parts)
                break
            except FileNotFoundError:
                if not parts:
                    raise
                parts, missing = parts[:-1], [parts[-1], *missing]
        try:
            self._refuse_sensitive_link_target(folder, *missing, self.name)
            for name in missing:
                inner = self._create_directory(folder, name)
                os.close(folder)
                folder = inner
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _create_directory(self, parent: int, name: str) -> int:
        self._refuse_read_only(parent)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        # What somebody else put there meanwhile may be a link, and is not followed.
        return os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)

    def _link_target(self) -> WorkspacePath:
        """What a link leads to, so that the link stays and its target is changed."""
        inside = self.resolve_links()
        if inside.parts == self.parts:
            raise Denied(f"Permission denied: {path_for_message(self)} is a link. Name the file that it leads to.")
        return inside

    def _real_parts(self, descriptor: int) -> tuple[str, ...] | None:
        """Where an open file really lies below the root, links resolved; None where the system does not say."""
        real, base = descriptor_path(descriptor), descriptor_path(self.root.descriptor)
        if real is None or base is None:
            return None
        base = base.rstrip("/")
        if real != base and not real.startswith(f"{base}/"):
            return None
        return tuple(part for part in real[len(base) :].split("/") if part)

    def _refuse_sensitive_link_target(self, descriptor: int, *remaining_names: str) -> None:
        """A link may not lead, under another name, to what a person would have been asked about."""
        inside = self._real_parts(descriptor)
        if inside is None:
            self._refuse_links(len(self.parts) - len(remaining_names))
            return
        inside = (*inside, *remaining_names)
        if inside != self.parts and self.workspace.has_sensitive_name(
            inside
        ):  # by its own name, and so a person was asked
            real = path_for_message(replace(self, parts=inside))
            raise Denied(
                f"Permission denied: {path_for_message(self)} leads to {real}, which is sensitive. Ask for {real} itself."
            )

    def _refuse_links(self, part_count: int) -> None:
        """Where the system does not say where a file lies, its path must be the plain one."""
        try:
            os.close(open_beneath(self.root.descriptor, self.parts[:part_count], _O_PATH, follow_links=False))
        except OSError as error:
            if error.errno == errno.ELOOP:
                problem = (
                    f"{path_for_message(self)} goes through a link, and it cannot be found out here where that leads."
                )
                raise Denied(f"Permission denied: {problem} Name the path itself.") from None
            raise to_tool_error(self, error) from None

    def _refuse_read_only(self, descriptor: int, *, whole_tree: bool = False) -> None:
        """A link may not lead into a folder that is only read; nor may a root go with the folder around it."""
        inside = self._real_parts(descriptor) if len(self.workspace.roots) > 1 else None
        if inside is None:
            return  # one folder alone; or a path without links, whose root was looked at already
        real = (*self._current_root_parts(), *inside, self.name)
        # Where the folders are now, and not where they were: a command may have moved what is around them.
        places = [
            (_split_parts(descriptor_path(root.descriptor)) or root.path.parts[1:], root)
            for root in self.workspace.roots
        ]
        around = [(place, root) for place, root in places if real[:-1][: len(place)] == place]
        if not max(around, key=lambda pair: (len(pair[0]), not pair[1].writable), default=((), self.root))[1].writable:
            raise self._read_only_error()
        if whole_tree and any(place[: len(real)] == real for place, _ in places):
            raise Denied(
                f"Permission denied: {path_for_message(self)} holds a folder of the workspace, which stays as it is."
            )

    def _current_root_parts(self) -> tuple[str, ...]:
        """Where the root is now; a path that was resolved when it was opened is compared with it."""
        return _split_parts(descriptor_path(self.root.descriptor)) or self.root.path.parts[1:]

    def _refuse_protected(self, descriptor: int, *, whole_tree: bool) -> None:
        """What the host itself runs or keeps stays as it is, by whatever name it is reached."""
        inside = self._real_parts(descriptor)
        real = (*self.root.path.parts[1:], *(self.parts[:-1] if inside is None else inside), self.name)
        if self.workspace.protected_paths.forbids_change(real, whole_tree=whole_tree):
            problem = (
                f"{path_for_message(self)} is, or holds, what this program itself runs or keeps, and stays as it is."
            )
            raise Denied(f"Permission denied: {problem}")

    def _refuse_private(self, descriptor: int) -> None:
        inside = self._real_parts(descriptor)
        if self.workspace.protected_paths.forbids_reading(
            (*self.root.path.parts[1:], *(self.parts if inside is None else inside))
        ):
            raise Denied(f"Permission denied: {path_for_message(self)} is this program's own, and not to be read.")

    def _read_only_error(self) -> Denied:
        return Denied(f"Permission denied: {path_for_message(self)} is in a folder that may only be read.")

    @contextmanager
    def _translate_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise to_tool_error(self, error) from None


def _split_parts(path: str | None) -> tuple[str, ...]:
    return tuple(part for part in (path or "").split("/") if part)
