"""Workspace: the folders that the built-in tools may touch, each opened once."""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surehand.builtin.protected import Protected
from surehand.builtin.sensitive import SENSITIVE, matcher
from surehand.builtin.spot import Spot
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, ToolError, Unavailable
from surehand.core.sanitize import escape_line

log = logging.getLogger("surehand")
Folder: TypeAlias = str | PathLike[str]
ROOT, WRITES = "AGENT_WORKSPACE_ROOT", "AGENT_FILESYSTEM_WRITES_ENABLED"
_OFF = ("false", "0", "no", "off")
_LOCKS = 64
_LONGEST = 4095
"""Bytes of a path that an operating system takes."""


@dataclass(frozen=True, slots=True)
class Root:
    """One folder of a workspace."""

    path: Path
    writable: bool
    held: list[int]
    """Its descriptor, until the workspace is closed."""
    aliases: tuple[tuple[str, ...], ...]
    """The parts of the paths it is known under: as it was given, and without links."""
    label: str = ""
    """What its paths begin with when models are shown them: nothing in the main one."""

    @property
    def descriptor(self) -> int:
        """What all else is opened beneath. Once it is closed, its number may be another file's."""
        if not self.held:
            raise Unavailable("The workspace is closed.")
        return self.held[0]


class Workspace:
    """Folders that built-in tools may touch. They are opened once, and everything else is opened beneath them.

    Args:
        root: the main folder, which relative paths are meant in.
        extra: further folders, named by their absolute paths.
        read_only: further folders that are only read.
        writes: False lets nothing be changed anywhere.
        sensitive: names that a person is asked about before a tool touches them.
        fixed: paths that nobody here may change, as what the host itself runs. Git's hooks and settings, and the
            virtual environment of this program, are among them anyway.
        private: paths that nobody here may even read, such as the runtime's own store.
    """

    source: Literal["given", "env", "config", "cwd"] = "given"
    """What said which folder is the root."""

    def __init__(
        self,
        root: Folder,
        *,
        extra: Folder | Iterable[Folder] = (),
        read_only: Folder | Iterable[Folder] = (),
        writes: bool = True,
        sensitive: str | Iterable[str] = SENSITIVE,
        fixed: Folder | Iterable[Folder] = (),
        private: Folder | Iterable[Folder] = (),
    ) -> None:
        self.writes = writes and os.environ.get(WRITES, "").strip().lower() not in _OFF
        self.folders: tuple[Root, ...] = (_opened(root, writable=self.writes),)
        self._close = weakref.finalize(self, _close, held := [self.folders[0].held])
        for folders, writable in ((extra, self.writes), (read_only, False)):
            for folder in _several(folders):
                more = _opened(folder, writable=writable)
                held.append(more.held)
                self.folders += (replace(more, label=_label(more.path, self.root)),)
        self.sensitive = matcher(_several(sensitive))
        self.protected = Protected.of(self.root, _paths(fixed), _paths(private))
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    @classmethod
    def of(cls, given: Folder | Workspace | None = None, **options: Any) -> Workspace:
        """A workspace as it is; or one for a folder, found as the environment allows."""
        if not isinstance(given, Workspace):
            return cls.detect(given, **options)
        if options:
            raise DefinitionError(
                f"{', '.join(options)} cannot be set for a workspace that exists.", fix="give them to Workspace(...)."
            )
        return given

    @classmethod
    def detect(
        cls, configured: Folder | None = None, *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> Workspace:
        """The root that the environment sets, narrowed by a configured one; else that one; else the current folder."""
        cap = (os.environ if environment is None else environment).get(ROOT) or None
        if cap is not None and configured is not None and not _allowed(configured, cap):
            configured = None
        for name in ("extra", "read_only") if cap is not None else ():
            options[name] = [folder for folder in _several(options.get(name, ())) if _allowed(folder, cap or "")]
        made = cls(configured or cap or os.getcwd(), **options)
        made.source = "config" if configured is not None else "env" if cap is not None else "cwd"
        return made

    @property
    def root(self) -> Path:
        """The main folder."""
        return self.folders[0].path

    def spot(self, path: str) -> Spot:
        """A place in the workspace, by a path as models write it. Nothing is opened yet."""
        told = f"'{escape_line(path, 200)}'"
        if not path.strip() or "\0" in path:
            raise InvalidArguments(f"{told} is no path. Give one inside the workspace, such as 'src/main.py'.")
        _check_encodes(path, told)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if ".." in parts:
            raise Denied(f"Permission denied: {told} contains '..'. Name the path itself, from the workspace's root.")
        found = self.innermost(parts if path.startswith("/") else (*self.root.parts[1:], *parts))
        if found is None:
            raise Denied(f"Permission denied: {told} is outside the workspace. Its root is {self.root}.")
        return Spot(self, *found)

    def shown(self) -> list[Any]:
        """What a sandbox shows of it: its folders, with what nobody may change there."""
        inside = [each for root in self.folders if root.writable for each in self.protected.shown_in(root.path)]
        roots = {root.path for root in self.folders}
        return [*self.folders, *{each.path: each for each in inside if each.path not in roots}.values()]

    def innermost(self, parts: tuple[str, ...]) -> tuple[Root, tuple[str, ...]] | None:
        """The folder that an absolute path lies in, and its parts from there; one that is only read comes first."""
        known = [(alias, root) for root in self.folders for alias in root.aliases if parts[: len(alias)] == alias]
        if not known:
            return None
        alias, root = max(known, key=lambda pair: (len(pair[0]), not pair[1].writable))
        return root, parts[len(alias) :]

    def is_sensitive(self, path: str) -> bool:
        """Whether a name on a path looks like keys or credentials."""
        try:
            return self.sensitive(self.spot(path).parts)
        except ToolError:
            return False  # the call itself will say what is wrong with it

    def lock(self, spot: Spot) -> threading.Lock:
        """Held by whoever reads a file in order to change it, so that no change of another call is lost."""
        return self._locks[hash((spot.root.path, spot.parts)) % _LOCKS]

    def close(self) -> None:
        """Let go of the folders."""
        self._close()


def _several(given: Any) -> tuple[Any, ...]:
    """One stands for a list of one."""
    return (given,) if isinstance(given, (str, PathLike)) else tuple(given)


def _paths(given: Any) -> list[Path]:
    return [Path(path).expanduser() for path in _several(given)]


def _opened(folder: Folder, *, writable: bool) -> Root:
    given = Path(folder).expanduser().absolute()
    path = given.resolve()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        problem = "is no folder" if error.errno == errno.ENOTDIR else (error.strerror or "").lower()
        raise DefinitionError(
            f"The workspace {given} cannot be used: {problem}.", fix="name a folder that exists."
        ) from None
    return Root(path, writable, [descriptor], tuple({given.parts[1:], path.parts[1:]}))


def _allowed(folder: Folder, cap: str) -> bool:
    """Whether a folder is inside the one that the environment sets."""
    if Path(folder).expanduser().resolve().is_relative_to(Path(cap).expanduser().resolve()):
        return True
    log.warning("The workspace folder %s is ignored: it is not inside %s, which %s sets.", folder, cap, ROOT)
    return False


def _label(path: Path, main: Path) -> str:
    below = path.relative_to(main).as_posix() if path.is_relative_to(main) else path.as_posix()
    return "" if below == "." else below


def _check_encodes(path: str, told: str) -> None:
    try:
        long = len(os.fsencode(path)) > _LONGEST
    except UnicodeEncodeError:
        raise InvalidArguments(f"{told} holds characters that no file name can have.") from None
    if long:
        raise InvalidArguments(f"{told} is too long for a path: it has {len(path):,} characters.")


def _close(held: list[list[int]]) -> None:
    for descriptors in held:
        while descriptors:
            with suppress(OSError):
                os.close(descriptors.pop())
