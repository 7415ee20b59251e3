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

from surehand.builtin.beneath import open_beneath, path_of
from surehand.builtin.entry import Entry, entries
from surehand.builtin.held import Held
from surehand.builtin.trouble import refuse_irregular, told, trouble
from surehand.core.errors import Denied, NotFound, ToolError
from surehand.core.sanitize import escape_line

if TYPE_CHECKING:
    from surehand.builtin.workspace import Root, Workspace

__all__ = ["Entry", "Spot"]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


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
        return escape_line("/".join((*label, *self.parts)) or ".")

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
            self._refuse_private(descriptor)
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
            refuse_irregular(told(self), os.fstat(descriptor))
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
        with self._changing(make=True) as held:
            before = held.before()
            if before is None or not stat.S_ISLNK(before.st_mode):
                held.replace(data, before, expected)
                return before is not None
        return self._target().replace(data, expected=expected)

    def remove(self, *, recursive: bool = False, stop: Callable[[], bool] = _never) -> None:
        """Take a file or an empty folder away; a folder with all that is in it only when asked to."""
        with self._changing(whole=True) as held:
            held.remove(recursive=recursive, stop=stop)

    def rename(self, to: Spot, *, overwrite: bool = False) -> None:
        """Move a file or folder; what is already there stays unless it may be overwritten."""
        to.check_writable()
        with self._changing(whole=True) as held:
            held.stat()  # before folders are made for it
            with to._changing(make=True, whole=True) as place:
                held.move(place, overwrite=overwrite)

    # What keeps it inside and safe

    @contextmanager
    def _changing(self, *, make: bool = False, whole: bool = False) -> Iterator[Held]:
        """Its name in the folder around it: whatever is done to that is done inside the root."""
        self.check_writable()
        if not self.parts:
            raise Denied("Permission denied: the root of the workspace itself stays as it is. Name something in it.")
        with self._explained():
            descriptor = self._make_folders() if make else self._folder(self.parts[:-1])
            try:
                self._refuse_hidden_secret(descriptor, self.name)
                self._refuse_read_only(descriptor, whole=whole)
                self._refuse_protected(descriptor, whole=whole)
                yield Held(descriptor, self.name, told(self))
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
        try:
            self._refuse_hidden_secret(folder, *missing, self.name)
            for name in missing:
                inner = self._make_folder(folder, name)
                os.close(folder)
                folder = inner
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _make_folder(self, outer: int, name: str) -> int:
        self._refuse_read_only(outer)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=outer)
        # What somebody else put there meanwhile may be a link, and is not followed.
        return os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)

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
            self._refuse_links(len(self.parts) - len(rest))
            return
        inside = (*inside, *rest)
        if inside != self.parts and self.workspace.sensitive(inside):  # by its own name, and so a person was asked
            real = told(replace(self, parts=inside))
            raise Denied(f"Permission denied: {told(self)} leads to {real}, which is sensitive. Ask for {real} itself.")

    def _refuse_links(self, count: int) -> None:
        """Where the system does not say where a file lies, its path must be the plain one."""
        try:
            os.close(open_beneath(self.root.descriptor, self.parts[:count], _O_PATH, links=False))
        except OSError as error:
            if error.errno == errno.ELOOP:
                problem = f"{told(self)} goes through a link, and it cannot be found out here where that leads."
                raise Denied(f"Permission denied: {problem} Name the path itself.") from None
            raise trouble(self, error) from None

    def _refuse_read_only(self, descriptor: int, *, whole: bool = False) -> None:
        """A link may not lead into a folder that is only read; nor may a root go with the folder around it."""
        inside = self._parts_of(descriptor) if len(self.workspace.folders) > 1 else None
        if inside is None:
            return  # one folder alone; or a path without links, whose root was looked at already
        real = (*self._root_parts(), *inside, self.name)
        # Where the folders are now, and not where they were: a command may have moved what is around them.
        places = [(_parts(path_of(root.descriptor)) or root.path.parts[1:], root) for root in self.workspace.folders]
        around = [(place, root) for place, root in places if real[:-1][: len(place)] == place]
        if not max(around, key=lambda pair: (len(pair[0]), not pair[1].writable), default=((), self.root))[1].writable:
            raise self._read_only()
        if whole and any(place[: len(real)] == real for place, _ in places):
            raise Denied(f"Permission denied: {told(self)} holds a folder of the workspace, which stays as it is.")

    def _root_parts(self) -> tuple[str, ...]:
        """Where the root is now; a path that was resolved when it was opened is compared with it."""
        return _parts(path_of(self.root.descriptor)) or self.root.path.parts[1:]

    def _refuse_protected(self, descriptor: int, *, whole: bool) -> None:
        """What the host itself runs or keeps stays as it is, by whatever name it is reached."""
        inside = self._parts_of(descriptor)
        real = (*self.root.path.parts[1:], *(self.parts[:-1] if inside is None else inside), self.name)
        if self.workspace.protected.changes(real, whole=whole):
            problem = f"{told(self)} is, or holds, what this program itself runs or keeps, and stays as it is."
            raise Denied(f"Permission denied: {problem}")

    def _refuse_private(self, descriptor: int) -> None:
        inside = self._parts_of(descriptor)
        if self.workspace.protected.hides((*self.root.path.parts[1:], *(self.parts if inside is None else inside))):
            raise Denied(f"Permission denied: {told(self)} is this program's own, and not to be read.")

    def _read_only(self) -> Denied:
        return Denied(f"Permission denied: {told(self)} is in a folder that may only be read.")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise trouble(self, error) from None


def _parts(path: str | None) -> tuple[str, ...]:
    return tuple(part for part in (path or "").split("/") if part)
