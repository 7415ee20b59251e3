"""WorkspacePath: a path inside a workspace. All file access of the built-in tools goes through it.

Files are opened beneath the root's descriptor, and each access checks what the opened file really is: sensitive,
private, protected or read-only.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO, Protocol

from surehand.core.errors import Denied, NotFound, ToolError
from surehand.core.sanitize import escape_line
from surehand.workspace.beneath import descriptor_path, open_beneath
from surehand.workspace.directory_entry import DirectoryEntry, OpenedEntry, scan_entries
from surehand.workspace.os_errors import path_for_message, refuse_irregular, to_tool_error
from surehand.workspace.protected_paths import ProtectedPaths
from surehand.workspace.root import WorkspaceRoot

__all__ = ["DirectoryEntry", "WorkspacePath"]
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY
# O_PATH opens a file only to look at it: no permission to read is needed, and opening a FIFO does not wait.
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


class WorkspaceRules(Protocol):
    """The parts of a `Workspace` that its paths depend on."""

    writes: bool
    roots: tuple[WorkspaceRoot, ...]
    has_sensitive_name: Callable[[Iterable[str]], bool]
    protected_paths: ProtectedPaths

    def file_lock(self, path: WorkspacePath) -> threading.Lock: ...
    def guard_imports(self) -> None: ...


def _never_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A path in a workspace; a file may or may not exist there."""

    workspace: WorkspaceRules
    root: WorkspaceRoot
    parts: tuple[str, ...]

    @property
    def display_path(self) -> str:
        """The path as models see it: relative to the main root, or absolute in another root."""
        prefix = (self.root.display_prefix,) if self.root.display_prefix else ()
        return escape_line("/".join((*prefix, *self.parts)) or ".")

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.parts[-1] if self.parts else self.root.path.name

    @property
    def is_sensitive(self) -> bool:
        """Whether a name on the path looks like keys or credentials."""
        return self.workspace.has_sensitive_name(self.parts)

    def __truediv__(self, name: str) -> WorkspacePath:
        return replace(self, parts=(*self.parts, name))

    @property
    def parent(self) -> WorkspacePath:
        """The directory that contains the path."""
        return replace(self, parts=self.parts[:-1])

    # Reading

    def open_descriptor(self, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open the path and return its descriptor, which the caller closes."""
        with self._translate_os_errors():
            descriptor = open_beneath(self.root.descriptor, self.parts, flags, mode)
        try:
            # Check after opening: only the descriptor tells which file the path led to at that moment.
            self._refuse_sensitive_link_target(descriptor)
            self._refuse_private(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def open_context(self, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Open the path and close its descriptor afterwards."""
        descriptor = self.open_descriptor(flags)
        try:
            with self._translate_os_errors():
                yield descriptor
        finally:
            os.close(descriptor)

    def open_reader(self) -> BinaryIO:
        """Open a regular file for reading; raise for a directory, FIFO or device."""
        descriptor = self.open_descriptor()
        try:
            refuse_irregular(path_for_message(self), os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def stat(self) -> os.stat_result:
        """The status of the file that the path leads to."""
        with self.open_context(_O_PATH) as descriptor:
            return os.fstat(descriptor)

    def exists(self) -> bool:
        """Whether the path leads to an existing file or directory."""
        try:
            self.stat()
        except NotFound:
            return False
        return True

    def resolve_links(self) -> WorkspacePath:
        """The same path with links resolved; unchanged if it does not exist or the system cannot say."""
        try:
            with self.open_context(_O_PATH) as descriptor:
                real_parts = self._real_parts(descriptor)
        except NotFound:
            return self
        return self if real_parts is None else replace(self, parts=real_parts)

    def scan_directory(
        self,
        *,
        limit: int | None = None,
        directories_first: bool = False,
        include_hidden: bool = True,
        extra_flags: int = 0,
    ) -> list[DirectoryEntry]:
        """The entries of a directory by name; links are listed as links."""
        with self.open_context(_DIRECTORY_FLAGS | extra_flags) as directory:
            return scan_entries(
                directory, limit=limit, directories_first=directories_first, include_hidden=include_hidden
            )

    def sample_names(self, limit: int) -> list[str]:
        """Up to `limit` names of a directory, in no order.

        Raises `OSError` untranslated, because the translation of errors calls this for its suggestions.
        """
        directory = open_beneath(self.root.descriptor, self.parts, _DIRECTORY_FLAGS)
        try:
            self._refuse_sensitive_link_target(directory)
            with os.scandir(directory) as iterator:
                return [item.name for item in islice(iterator, limit)]
        finally:
            os.close(directory)

    def walk(self, *, include_hidden: bool = False) -> Iterator[tuple[WorkspacePath, DirectoryEntry]]:
        """Everything below a directory; links are not followed, and directories that vanish are skipped."""
        pending = [self]
        while pending:
            directory = pending.pop()
            is_start = directory is self
            try:
                # O_NOFOLLOW below the start: a directory may have been replaced by a link since it was listed.
                entries = directory.scan_directory(
                    include_hidden=include_hidden, extra_flags=0 if is_start else os.O_NOFOLLOW
                )
            except ToolError:
                if is_start:
                    raise
                continue
            children = [(directory / entry.name, entry) for entry in entries]
            yield from children
            pending += [path for path, entry in reversed(children) if entry.is_directory]

    # Changing

    def check_writable(self) -> None:
        """Raise `Denied` if nothing may be changed here."""
        if not self.workspace.writes:
            raise Denied("Permission denied: changing files is switched off in this workspace.")
        if not self.root.writable:
            raise self._read_only_error()
        self.workspace.guard_imports()

    def write_atomically(self, data: bytes, *, expected_stat: os.stat_result | None = None) -> bool:
        """Replace the content, all of it or nothing, and create missing directories. True if the file existed.

        Args:
            expected_stat: the file's status when it was read; if the file has changed since, raise `conflict`.
        """
        with self._open_for_change(create_directories=True) as entry:
            current_stat = entry.stat_or_none()
            if current_stat is None or not stat.S_ISLNK(current_stat.st_mode):
                entry.write_atomically(data, current_stat, expected_stat)
                return current_stat is not None
        return self._link_target().write_atomically(data, expected_stat=expected_stat)

    def remove(self, *, recursive: bool = False, is_cancelled: Callable[[], bool] = _never_cancelled) -> None:
        """Delete a file or an empty directory; with `recursive`, a directory and everything in it."""
        with self._open_for_change(whole_tree=True) as entry:
            entry.remove(recursive=recursive, is_cancelled=is_cancelled)

    def rename(self, destination: WorkspacePath, *, overwrite: bool = False) -> None:
        """Move a file or directory; without `overwrite`, an existing destination raises `conflict`."""
        destination.check_writable()
        with self._open_for_change(whole_tree=True) as source:
            source.stat()  # raises for a missing source before directories are created for it
            with destination._open_for_change(create_directories=True, whole_tree=True) as target:
                source.move(target, overwrite=overwrite)

    # Dry runs: raise what a change would raise, as far as that is known without changing anything

    def check_write(self) -> None:
        """Raise if `write_atomically` could not write here."""
        with self._open_for_check() as entry:
            current_stat = None if entry is None else entry.stat_or_none()
            if entry is None or current_stat is None:
                return
            if not stat.S_ISLNK(current_stat.st_mode):
                entry.refuse_irreplaceable(current_stat)
                return
        self._link_target().check_write()

    def check_remove(self, *, recursive: bool = False) -> None:
        """Raise if `remove` could not delete what is here."""
        with self._open_for_change(whole_tree=True) as entry:
            is_directory = stat.S_ISDIR(entry.stat().st_mode)
        if is_directory and not recursive and self.scan_directory(limit=1):
            raise to_tool_error(self, OSError(errno.ENOTEMPTY, ""))

    def check_rename(self, destination: WorkspacePath, *, overwrite: bool = False) -> None:
        """Raise if `rename` could not move this to the destination."""
        destination.check_writable()
        with self._open_for_change(whole_tree=True) as source:
            source.stat()
        with destination._open_for_check(whole_tree=True) as target:
            is_taken = target is not None and target.stat_or_none() is not None
        if is_taken and not overwrite:
            raise to_tool_error(destination, OSError(errno.EEXIST, ""))

    @contextmanager
    def _open_for_check(self, *, whole_tree: bool = False) -> Iterator[OpenedEntry | None]:
        """Like `_open_for_change`, but creates no directories: None if the parent directory does not exist yet."""
        self.check_writable()
        with self._translate_os_errors():
            directory, missing = self._open_nearest_directory()
            try:
                self._refuse_sensitive_link_target(directory, *missing, self.name)
                self._refuse_read_only(directory)
            finally:
                os.close(directory)
        if missing:
            yield None
            return
        with self._open_for_change(whole_tree=whole_tree) as entry:
            yield entry

    # Checks

    @contextmanager
    def _open_for_change(self, *, create_directories: bool = False, whole_tree: bool = False) -> Iterator[OpenedEntry]:
        """Open the parent directory, check that the entry may be changed, and yield it."""
        self.check_writable()
        if not self.parts:
            raise Denied("Permission denied: the root of the workspace itself stays as it is. Name something in it.")
        with self._translate_os_errors():
            descriptor = self._create_parents() if create_directories else self._open_directory(self.parts[:-1])
            try:
                self._refuse_sensitive_link_target(descriptor, self.name)
                self._refuse_read_only(descriptor, whole_tree=whole_tree)
                self._refuse_protected(descriptor, self.name, whole_tree=whole_tree, creates=create_directories)
                yield OpenedEntry(descriptor, self.name, path_for_message(self))
            finally:
                os.close(descriptor)

    def _open_directory(self, parts: tuple[str, ...]) -> int:
        return open_beneath(self.root.descriptor, parts, _DIRECTORY_FLAGS)

    def _create_parents(self) -> int:
        """Open the parent directory, and create it and its parents where they are missing."""
        directory, missing = self._open_nearest_directory()
        try:
            if missing:  # check before a folder is created; else `_open_for_change` checks just this directory and name
                self._refuse_sensitive_link_target(directory, *missing, self.name)
                self._refuse_protected(directory, *missing, self.name)
            for name in missing:
                child = self._create_directory(directory, name)
                os.close(directory)
                directory = child
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _open_nearest_directory(self) -> tuple[int, list[str]]:
        """The descriptor of the nearest parent directory that exists, and the names of those below that do not."""
        parts = self.parts[:-1]
        missing: list[str] = []
        while True:
            try:
                return self._open_directory(parts), missing
            except FileNotFoundError:
                if not parts:
                    raise
                missing.insert(0, parts[-1])
                parts = parts[:-1]

    def _create_directory(self, parent: int, name: str) -> int:
        self._refuse_read_only(parent)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        # O_NOFOLLOW: between mkdir and open, another process may put a link there.
        return os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)

    def _link_target(self) -> WorkspacePath:
        """The target of a link, so that the target is changed and the link stays."""
        target = self.resolve_links()
        if target.parts == self.parts:
            raise Denied(f"Permission denied: {path_for_message(self)} is a link. Name the file that it leads to.")
        return target

    def _real_parts(self, descriptor: int) -> tuple[str, ...] | None:
        """The path of an open file below the root, links resolved; None where the system cannot say."""
        file_path = descriptor_path(descriptor)
        root_path = descriptor_path(self.root.descriptor)
        if file_path is None or root_path is None:
            return None
        root_path = root_path.rstrip("/")
        if file_path != root_path and not file_path.startswith(f"{root_path}/"):
            return None
        return _split_parts(file_path[len(root_path) :])

    def _refuse_sensitive_link_target(self, descriptor: int, *remaining_names: str) -> None:
        """Raise `Denied` if a link leads, under a harmless name, to a file that needs a person's approval."""
        real_parts = self._real_parts(descriptor)
        if real_parts is None:
            self._refuse_links(len(self.parts) - len(remaining_names))
            return
        real_parts = (*real_parts, *remaining_names)
        # A path that carries the sensitive name itself was approved by a person before the call ran.
        if real_parts != self.parts and self.workspace.has_sensitive_name(real_parts):
            path = path_for_message(self)
            target = path_for_message(replace(self, parts=real_parts))
            raise Denied(f"Permission denied: {path} leads to {target}, which is sensitive. Ask for {target} itself.")

    def _refuse_links(self, part_count: int) -> None:
        """Raise `Denied` for a path with links, for systems that cannot say where an open file lies."""
        try:
            os.close(open_beneath(self.root.descriptor, self.parts[:part_count], _O_PATH, follow_links=False))
        except OSError as error:
            if error.errno == errno.ELOOP:
                path = path_for_message(self)
                problem = f"{path} goes through a link, and it cannot be found out here where that leads."
                raise Denied(f"Permission denied: {problem} Name the path itself.") from None
            raise to_tool_error(self, error) from None

    def _refuse_read_only(self, descriptor: int, *, whole_tree: bool = False) -> None:
        """Raise `Denied` if a link leads into a read-only root, or if a change would take another root along."""
        real_parts = self._real_parts(descriptor) if len(self.workspace.roots) > 1 else None
        if real_parts is None:
            return  # a single root, or a path without links: `check_writable` has looked at its root
        absolute_parts = (*_current_parts(self.root), *real_parts, self.name)
        # Compare with where the roots are now: a command may have moved a directory around them.
        roots = [(_current_parts(root), root) for root in self.workspace.roots]
        containing = [
            (root_parts, root) for root_parts, root in roots if absolute_parts[:-1][: len(root_parts)] == root_parts
        ]
        _, innermost = max(containing, key=lambda pair: (len(pair[0]), not pair[1].writable), default=((), self.root))
        if not innermost.writable:
            raise self._read_only_error()
        if whole_tree and any(root_parts[: len(absolute_parts)] == absolute_parts for root_parts, _ in roots):
            path = path_for_message(self)
            raise Denied(f"Permission denied: {path} holds a folder of the workspace, which stays as it is.")

    def _refuse_protected(
        self, descriptor: int, *remaining_names: str, whole_tree: bool = False, creates: bool = True
    ) -> None:
        """Raise `Denied` for paths that the host program runs, imports or stores, whatever link led to them."""
        real_parts = self._real_parts(descriptor)
        parent_parts = self.parts[: -len(remaining_names)] if real_parts is None else real_parts
        absolute_parts = (*self.root.path.parts[1:], *parent_parts, *remaining_names)
        protected = self.workspace.protected_paths
        problem = protected.change_problem(absolute_parts, whole_tree=whole_tree, creates=creates)
        if problem is not None:
            raise Denied(f"Permission denied: {problem.replace('{path}', path_for_message(self))}")

    def _refuse_private(self, descriptor: int) -> None:
        real_parts = self._real_parts(descriptor)
        absolute_parts = (*self.root.path.parts[1:], *(self.parts if real_parts is None else real_parts))
        if self.workspace.protected_paths.forbids_reading(absolute_parts):
            raise Denied(f"Permission denied: {path_for_message(self)} is this program's own, and not to be read.")

    def _read_only_error(self) -> Denied:
        return Denied(f"Permission denied: {path_for_message(self)} is in a folder that may only be read.")

    @contextmanager
    def _translate_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise to_tool_error(self, error) from None


def _current_parts(root: WorkspaceRoot) -> tuple[str, ...]:
    """Where a root is now; where the system cannot say, where it was when it was opened."""
    return _split_parts(descriptor_path(root.descriptor)) or root.path.parts[1:]


def _split_parts(path: str | None) -> tuple[str, ...]:
    return tuple(part for part in (path or "").split("/") if part)
