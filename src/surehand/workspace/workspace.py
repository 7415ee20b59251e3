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

from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.sanitize import escape_line
from surehand.workspace.path import WorkspacePath
from surehand.workspace.protected_paths import SENSITIVE_NAME_GLOBS, ProtectedPaths, build_name_matcher

log = logging.getLogger("surehand")
DirectoryLike: TypeAlias = str | PathLike[str]
ROOT_VARIABLE, WRITES_VARIABLE = "AGENT_WORKSPACE_ROOT", "AGENT_FILESYSTEM_WRITES_ENABLED"
_FALSE_WORDS = ("false", "0", "no", "off")
_LOCK_COUNT = 64
_MAX_PATH_BYTES = 4095
"""Bytes of a path that an operating system takes."""


@dataclass(frozen=True, slots=True)
class WorkspaceRoot:
    """One folder of a workspace."""

    path: Path
    writable: bool
    open_descriptors: list[int]
    """Its descriptor, until the workspace is closed."""
    alias_parts: tuple[tuple[str, ...], ...]
    """The parts of the paths it is known under: as it was given, and without links."""
    display_prefix: str = ""
    """What its paths begin with when models are shown them: nothing in the main one."""

    @property
    def descriptor(self) -> int:
        """What all else is opened beneath. Once it is closed, its number may be another file's."""
        if not self.open_descriptors:
            raise Unavailable("The workspace is closed.")
        return self.open_descriptors[0]


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
        allowed_paths: folders, relative to the root; if given, nothing else of the root can be touched. One that does
            not exist is a warning, and can be used once it does.
    """

    source: Literal["given", "env", "config", "cwd"] = "given"
    """What said which folder is the root."""

    def __init__(
        self,
        root: DirectoryLike,
        *,
        extra: DirectoryLike | Iterable[DirectoryLike] = (),
        read_only: DirectoryLike | Iterable[DirectoryLike] = (),
        writes: bool = True,
        sensitive: str | Iterable[str] = SENSITIVE_NAME_GLOBS,
        fixed: DirectoryLike | Iterable[DirectoryLike] = (),
        private: DirectoryLike | Iterable[DirectoryLike] = (),
        allowed_paths: DirectoryLike | Iterable[DirectoryLike] | None = None,
    ) -> None:
        self.writes = writes and os.environ.get(WRITES_VARIABLE, "").strip().lower() not in _FALSE_WORDS
        self.roots: tuple[WorkspaceRoot, ...] = ()
        self._descriptors: list[list[int]] = []
        self._finalizer = weakref.finalize(self, _close_descriptors, self._descriptors)
        main_root = _open_root(root, writable=self.writes)
        self._descriptors.append(main_root.open_descriptors)
        self.root = main_root.path
        """The main folder, which relative paths are meant in."""
        self.allowed_paths = None if allowed_paths is None else _below(self.root, allowed_paths)
        """The folders that may be touched, if not the whole root."""
        self._missing_paths = list(self.allowed_paths or ())
        """Allowed folders that have not been opened, because they do not exist yet."""
        self._missing_paths_lock = threading.Lock()
        if self.allowed_paths is None:
            self.roots = (main_root,)
        self._open_missing_paths()
        for folder in self._missing_paths:
            log.warning("The allowed path %s is not a folder. Files in it can be used once it exists.", folder)
        for folders, writable in ((extra, self.writes), (read_only, False)):
            for folder in _as_tuple(folders):
                self._add_root(folder, writable=writable)
        self.has_sensitive_name = build_name_matcher(_as_tuple(sensitive))
        self.protected_paths = ProtectedPaths.for_root(self.root, _expand_paths(fixed), _expand_paths(private))
        self._locks = tuple(threading.Lock() for _ in range(_LOCK_COUNT))

    def _add_root(self, folder: DirectoryLike, *, writable: bool) -> None:
        more = _open_root(folder, writable=writable)
        self._descriptors.append(more.open_descriptors)
        self.roots += (replace(more, display_prefix=_display_prefix(more.path, self.root)),)

    def _open_missing_paths(self) -> None:
        """Open the allowed folders that exist by now."""
        with self._missing_paths_lock:
            for folder in [folder for folder in self._missing_paths if folder.is_dir()]:
                self._add_root(folder, writable=self.writes)
                self._missing_paths.remove(folder)

    @classmethod
    def coerce(cls, value: DirectoryLike | Workspace | None = None, **options: Any) -> Workspace:
        """A workspace as it is; or one for a folder, found as the environment allows."""
        if not isinstance(value, Workspace):
            return cls.detect(value, **options)
        if options:
            raise DefinitionError(
                f"{', '.join(options)} cannot be set for a workspace that exists.", fix="give them to Workspace(...)."
            )
        return value

    @classmethod
    def detect(
        cls, configured: DirectoryLike | None = None, *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> Workspace:
        """The root that the environment sets, narrowed by a configured one; else that one; else the current folder."""
        cap = (os.environ if environment is None else environment).get(ROOT_VARIABLE) or None
        if cap is not None and configured is not None and not _is_within_root_limit(configured, cap):
            configured = None
        root = configured or cap or os.getcwd()
        if options.get("allowed_paths") is not None:
            options["allowed_paths"] = _below(Path(root).expanduser().absolute(), options["allowed_paths"])
        for name in ("extra", "read_only", "allowed_paths"):
            if cap is not None and options.get(name) is not None:
                options[name] = [folder for folder in _as_tuple(options[name]) if _is_within_root_limit(folder, cap)]
        made = cls(root, **options)
        made.source = "config" if configured is not None else "env" if cap is not None else "cwd"
        return made

    @property
    def working_folder(self) -> Path:
        """Where commands start: the root, or the first allowed folder if the root may not be touched."""
        if self.find_root(self.root.parts[1:]) is not None:
            return self.root
        if not self.roots:
            raise Denied(self._outside_message("The root"))
        return self.roots[0].path

    def resolve(self, path: str) -> WorkspacePath:
        """A place in the workspace, by a path as models write it. Nothing is opened yet."""
        told = f"'{escape_line(path, 200)}'"
        if not path.strip() or "\0" in path:
            raise InvalidArguments(f"{told} is no path. Give one inside the workspace, such as 'src/main.py'.")
        _validate_path_encoding(path, told)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if ".." in parts:
            raise Denied(f"Permission denied: {told} contains '..'. Name the path itself, from the workspace's root.")
        absolute = parts if path.startswith("/") else (*self.root.parts[1:], *parts)
        found = self.find_root(absolute)
        if found is None and self._missing_paths:
            self._open_missing_paths()
            found = self.find_root(absolute)
        if found is None:
            self._refuse_missing_path(absolute, told)
            raise Denied(self._outside_message(told))
        return WorkspacePath(self, *found)

    def _refuse_missing_path(self, parts: tuple[str, ...], told: str) -> None:
        for folder in self._missing_paths:
            if parts[: len(folder.parts) - 1] == folder.parts[1:]:
                raise NotFound(f"{told} does not exist: {folder} is not a folder. A person has to create it first.")

    def _outside_message(self, told: str) -> str:
        if self.allowed_paths is None:
            return f"Permission denied: {told} is outside the workspace. Its root is {self.root}."
        names = ", ".join(_display_prefix(path, self.root) or "." for path in self.allowed_paths) or "none"
        return f"Permission denied: {told} is not in the allowed paths. Name a path in one of them: {names}."

    def sandbox_mounts(self) -> list[Any]:
        """What a sandbox shows of it: its folders, with what nobody may change there."""
        inside = [
            each for root in self.roots if root.writable for each in self.protected_paths.sandbox_mounts(root.path)
        ]
        roots = {root.path for root in self.roots}
        return [*self.roots, *{each.path: each for each in inside if each.path not in roots}.values()]

    def find_root(self, parts: tuple[str, ...]) -> tuple[WorkspaceRoot, tuple[str, ...]] | None:
        """The folder that an absolute path lies in, and its parts from there; one that is only read comes first."""
        known = [(alias, root) for root in self.roots for alias in root.alias_parts if parts[: len(alias)] == alias]
        if not known:
            return None
        alias, root = max(known, key=lambda pair: (len(pair[0]), not pair[1].writable))
        return root, parts[len(alias) :]

    def is_sensitive(self, path: str) -> bool:
        """Whether a name on a path looks like keys or credentials."""
        try:
            return self.has_sensitive_name(self.resolve(path).parts)
        except ToolError:
            return False  # the call itself will say what is wrong with it

    def file_lock(self, path: WorkspacePath) -> threading.Lock:
        """Held by whoever reads a file in order to change it, so that no change of another call is lost."""
        return self._locks[hash((path.root.path, path.parts)) % _LOCK_COUNT]

    def close(self) -> None:
        """Let go of the folders."""
        self._finalizer()


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """One stands for a list of one."""
    return (value,) if isinstance(value, (str, PathLike)) else tuple(value)


def _below(root: Path, folders: Any) -> tuple[Path, ...]:
    """Folders as absolute paths; relative ones are meant in the root."""
    return tuple((root / path).resolve() for path in _expand_paths(folders))


def _expand_paths(values: Any) -> list[Path]:
    return [Path(path).expanduser() for path in _as_tuple(values)]


def _open_root(directory: DirectoryLike, *, writable: bool) -> WorkspaceRoot:
    given = Path(directory).expanduser().absolute()
    path = given.resolve()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        problem = "is no folder" if error.errno == errno.ENOTDIR else (error.strerror or "").lower()
        raise DefinitionError(
            f"The workspace {given} cannot be used: {problem}.", fix="name a folder that exists."
        ) from None
    return WorkspaceRoot(path, writable, [descriptor], tuple({given.parts[1:], path.parts[1:]}))


def _is_within_root_limit(directory: DirectoryLike, limit: str) -> bool:
    """Whether a folder is inside the one that the environment sets."""
    if Path(directory).expanduser().resolve().is_relative_to(Path(limit).expanduser().resolve()):
        return True
    log.warning(
        "The workspace folder %s is ignored: it is not inside %s, which %s sets.", directory, limit, ROOT_VARIABLE
    )
    return False


def _display_prefix(path: Path, main_root: Path) -> str:
    below = path.relative_to(main_root).as_posix() if path.is_relative_to(main_root) else path.as_posix()
    return "" if below == "." else below


def _validate_path_encoding(path: str, quoted_path: str) -> None:
    try:
        long = len(os.fsencode(path)) > _MAX_PATH_BYTES
    except UnicodeEncodeError:
        raise InvalidArguments(f"{quoted_path} holds characters that no file name can have.") from None
    if long:
        raise InvalidArguments(f"{quoted_path} is too long for a path: it has {len(path):,} characters.")


def _close_descriptors(descriptor_lists: list[list[int]]) -> None:
    for descriptors in descriptor_lists:
        while descriptors:
            with suppress(OSError):
                os.close(descriptors.pop())
