"""Workspace: the directories that the built-in tools may touch, each opened once.

Tools turn the paths that models write into `WorkspacePath`s with `Workspace.resolve`; the shell mounts
`Workspace.sandbox_mounts`.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surehand.core.call import CURRENT_ALLOWED_PATHS
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError
from surehand.core.private_paths import PRIVATE_PATHS
from surehand.core.sanitize import escape_line
from surehand.workspace.import_guard import IMPORT_GUARD
from surehand.workspace.path import WorkspacePath
from surehand.workspace.protected_paths import (
    SENSITIVE_NAME_GLOBS,
    ProtectedPaths,
    WorkspaceMount,
    build_name_matcher,
)
from surehand.workspace.refused_names import RefusedNames
from surehand.workspace.root import WorkspaceRoot

log = logging.getLogger("surehand")
DirectoryLike: TypeAlias = str | PathLike[str]
ROOT_VARIABLE = "AGENT_WORKSPACE_ROOT"
WRITES_VARIABLE = "AGENT_FILESYSTEM_WRITES_ENABLED"
_FALSE_WORDS = ("false", "0", "no", "off")
_LOCK_COUNT = 64
_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
"""Private files of these names are protected like a store, with the files that SQLite writes beside them."""
_MAX_PATH_BYTES = 4095
"""PATH_MAX of Linux without the terminating NUL."""


class Workspace:
    """Directories that built-in tools may touch. They are opened once, and all files are opened beneath them.

    Args:
        root: the main directory; relative paths start here.
        extra: further directories, named by their absolute paths.
        read_only: further directories that tools may read and not change.
        writes: False forbids every change.
        sensitive: globs of names that need a person's approval before a tool touches them.
        fixed: paths that no tool may change or create, such as programs that the host runs. Git's hooks and settings,
            what this program has loaded, and the installed packages are always among them.
        private: paths that no tool may even read. The stores of this process are always among them.
        allowed_paths: directories, relative to the root; if given, no tool can touch anything else of the root. One
            that does not exist is a warning, and can be used once it does.
        is_limited: whether the root that the environment variable `AGENT_WORKSPACE_ROOT` names is a limit. It is one
            for all tools; False is for folders that a developer names for another purpose, such as memories.
    """

    source: Literal["given", "env", "config", "cwd"] = "given"
    """Where the root came from."""

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
        is_limited: bool = True,
    ) -> None:
        if is_limited and (limit := os.environ.get(ROOT_VARIABLE)):
            _refuse_outside(root, limit)
            extra = _within_limit(extra, limit)
            read_only = _within_limit(read_only, limit)
        self.writes: bool = writes and os.environ.get(WRITES_VARIABLE, "").strip().lower() not in _FALSE_WORDS
        self.roots: tuple[WorkspaceRoot, ...] = ()
        self._is_part = False
        self._parts: dict[tuple[str, ...], Workspace] = {}
        """Parts of this workspace for scopes with `allowed_paths`."""
        self._is_open = False
        # Registered before the roots are opened: if one of them fails, the descriptors so far are closed.
        self._descriptor_lists: list[list[int]] = []
        self._guarded_paths: set[Path] = set()
        self._close_callbacks: list[Callable[[], None]] = []
        # The finalizer gets the lists and not `self`: a reference to `self` would keep the workspace alive for ever.
        self._finalizer = weakref.finalize(self, _close_all, self._descriptor_lists, self._close_callbacks)
        main_root = _open_root(root, writable=self.writes)
        self._descriptor_lists.append(main_root.open_descriptors)
        self.root = main_root.path
        """The main directory; relative paths start here."""
        self.allowed_paths = None if allowed_paths is None else _resolve_below(self.root, allowed_paths)
        """The directories that tools may touch, if that is not the whole root."""
        self._missing_paths = list(self.allowed_paths or ())
        """Allowed directories that are not open, because they do not exist yet."""
        self._missing_paths_lock = threading.Lock()
        if self.allowed_paths is None:
            self.roots = (main_root,)
        self._open_missing_paths()
        for directory in self._missing_paths:
            log.warning("The allowed path %s is not a directory. Files in it can be used once it is one.", directory)
        for directories, writable in ((extra, self.writes), (read_only, False)):
            for directory in _as_tuple(directories):
                self._add_root(directory, writable=writable)
        self.has_sensitive_name: Callable[[Iterable[str]], bool] = build_name_matcher(_as_tuple(sensitive))
        self._configured_protection = (_expand_paths(fixed), _expand_paths(private))
        self._update_protection()
        for path in self.protected_paths.private:
            if path.suffix in _DATABASE_SUFFIXES:
                PRIVATE_PATHS.add_store(path)
        self._is_open = True
        # A fixed number of locks, chosen by a hash: a lock for each path would never be freed.
        self._locks = tuple(threading.Lock() for _ in range(_LOCK_COUNT))

    def _update_protection(self) -> None:
        """Protect what this program runs and keeps in the roots."""
        paths = [root.path for root in self.roots]
        self.protected_paths = ProtectedPaths.for_roots(paths, self.root, *self._configured_protection)
        if self._guarded_paths:
            self.guard_imports()

    def guard_imports(self) -> None:
        """From now on tools may write: import nothing into this process that they could have written."""
        for root in self.roots:
            if root.writable and root.path not in self._guarded_paths:
                self._guarded_paths.add(root.path)
                self._close_callbacks.append(IMPORT_GUARD.begin_writable_period(root.path))

    def _add_root(self, directory: DirectoryLike, *, writable: bool) -> None:
        another = _open_root(directory, writable=writable)
        self._descriptor_lists.append(another.open_descriptors)
        self.roots += (replace(another, display_prefix=_display_prefix(another.path, self.root)),)

    def _open_missing_paths(self) -> None:
        """Open the allowed directories that exist by now."""
        with self._missing_paths_lock:
            for directory in [path for path in self._missing_paths if path.is_dir()]:
                self._add_root(directory, writable=self.writes)
                self._missing_paths.remove(directory)
                if self._is_open:
                    self._update_protection()

    @classmethod
    def coerce(cls, value: DirectoryLike | Workspace | None = None, **options: Any) -> Workspace:
        """Return a workspace unchanged, or open one for a directory as `detect` does."""
        if not isinstance(value, Workspace):
            workspace = cls.detect(value, **options)
            workspace.guard_imports()
            return workspace
        value.guard_imports()
        if options:
            raise DefinitionError(
                f"{', '.join(options)} cannot be set for an existing workspace.", fix="pass them to Workspace(...)."
            )
        return value

    @classmethod
    def detect(
        cls, configured: DirectoryLike | None = None, *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> Workspace:
        """Open the configured root, the one that the environment sets, or the current directory.

        The environment's root is a limit: configured directories outside it are ignored with a warning.
        """
        variables = os.environ if environment is None else environment
        limit = variables.get(ROOT_VARIABLE) or None
        if limit is not None and configured is not None and not _is_within_root_limit(configured, limit):
            configured = None
        root = configured or limit or os.getcwd()
        if options.get("allowed_paths") is not None:
            options["allowed_paths"] = _resolve_below(Path(root).expanduser().absolute(), options["allowed_paths"])
        for name in ("extra", "read_only", "allowed_paths"):
            if limit is not None and options.get(name) is not None:
                directories = _as_tuple(options[name])
                options[name] = [each for each in directories if _is_within_root_limit(each, limit)]
        workspace = cls(root, **options)
        if configured is not None:
            workspace.source = "config"
        else:
            workspace.source = "env" if limit is not None else "cwd"
        return workspace

    @property
    def working_directory(self) -> Path:
        """Where commands start: the root, or the first allowed directory if they may not touch the root."""
        if (limited := self._part_for_current_call()) is not self:
            return limited.working_directory
        if self.find_root(self.root.parts[1:]) is not None:
            return self.root
        if not self.roots:
            raise Denied(self._outside_message("The root"))
        return self.roots[0].path

    def resolve(self, path: str) -> WorkspacePath:
        """Return the workspace path for a path as models write it. Opens nothing."""
        if (limited := self._part_for_current_call()) is not self:
            return limited.resolve(path)
        quoted = f"'{escape_line(path, 200)}'"
        if not path.strip() or "\0" in path:
            raise InvalidArguments(f"{quoted} is no path. Give one inside the workspace, such as 'src/main.py'.")
        _validate_path_encoding(path, quoted)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if ".." in parts:
            raise Denied(f"Permission denied: {quoted} contains '..'. Name the path itself, from the workspace's root.")
        absolute_parts = parts if path.startswith("/") else (*self.root.parts[1:], *parts)
        location = self.find_root(absolute_parts)
        if location is None and self._missing_paths:
            self._open_missing_paths()
            location = self.find_root(absolute_parts)
        if location is None:
            self._refuse_missing_path(absolute_parts, quoted)
            raise Denied(self._outside_message(quoted))
        root, parts_below = location
        return WorkspacePath(self, root, parts_below)

    def _refuse_missing_path(self, parts: tuple[str, ...], quoted: str) -> None:
        for path in self._missing_paths:
            if parts[: len(path.parts) - 1] == path.parts[1:]:
                raise NotFound(f"{quoted} does not exist: {path} is not a directory. A person has to create it first.")

    def _outside_message(self, quoted: str) -> str:
        if self.allowed_paths is None:
            return f"Permission denied: {quoted} is outside the workspace. Its root is {self.root}."
        names = ", ".join(_display_prefix(path, self.root) or "." for path in self.allowed_paths) or "none"
        return f"Permission denied: {quoted} is not in the allowed paths. Name a path in one of them: {names}."

    def sandbox_mounts(self) -> list[WorkspaceRoot | WorkspaceMount]:
        """The mounts that a sandbox needs: the roots, and the protected paths in the writable ones."""
        if (limited := self._part_for_current_call()) is not self:
            return limited.sandbox_mounts()
        root_paths = {root.path for root in self.roots}
        protected: dict[Path, WorkspaceMount] = {}
        for root in self.roots:
            if root.writable:
                protected |= {mount.path: mount for mount in self.protected_paths.sandbox_mounts(root.path)}
        return [*self.roots, *(mount for path, mount in protected.items() if path not in root_paths)]

    def _part_for_current_call(self) -> Workspace:
        """This workspace, or its part that the scope of the running call allows."""
        paths = CURRENT_ALLOWED_PATHS.get()
        if paths is None or self._is_part:
            return self
        with self._missing_paths_lock:
            if paths not in self._parts:
                self._parts[paths] = self._open_part(paths)
            return self._parts[paths]

    def _open_part(self, paths: tuple[str, ...]) -> Workspace:
        """The same workspace with these folders alone, as far as it contains them; files keep their locks."""
        resolved = [Path(path).resolve() for path in paths]
        allowed = [path for path in resolved if self.find_root(path.parts[1:]) is not None]
        fixed, private = self._configured_protection
        part = Workspace(
            self.root, writes=self.writes, fixed=fixed, private=private, allowed_paths=allowed, is_limited=False
        )
        read_only = {root.path for root in self.roots if not root.writable}
        part.roots = tuple(
            replace(root, writable=root.writable and not any(root.path.is_relative_to(each) for each in read_only))
            for root in part.roots
        )
        part.has_sensitive_name = self.has_sensitive_name
        part._locks = self._locks
        part._is_part = True
        return part

    def watch_refused_names(self) -> RefusedNames:
        """The names that a command must not create, as they are before it starts."""
        writable = [root.path for root in self.roots if root.writable]
        absent = self.protected_paths.absent_paths()
        return RefusedNames(writable, [path for path in absent if any(root in path.parents for root in writable)])

    def find_root(self, parts: tuple[str, ...]) -> tuple[WorkspaceRoot, tuple[str, ...]] | None:
        """The innermost root that contains an absolute path, and the parts below it; a read-only root wins a tie."""
        containing = [
            (alias, root) for root in self.roots for alias in root.alias_parts if parts[: len(alias)] == alias
        ]
        if not containing:
            return None
        alias, root = max(containing, key=lambda pair: (len(pair[0]), not pair[1].writable))
        return root, parts[len(alias) :]

    def is_sensitive(self, path: str) -> bool:
        """Whether a name on a path looks like keys or credentials."""
        try:
            return self.has_sensitive_name(self.resolve(path).parts)
        except ToolError:
            return False  # the call itself reports the invalid path

    def file_lock(self, path: WorkspacePath) -> threading.Lock:
        """The lock for reading a file and then changing it, so that no concurrent call loses its change."""
        return self._locks[hash((path.root.path, path.parts)) % _LOCK_COUNT]

    def close(self) -> None:
        """Close the roots' descriptors."""
        self._finalizer()


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """A single path or text becomes a tuple of one."""
    return (value,) if isinstance(value, (str, PathLike)) else tuple(value)


def _resolve_below(root: Path, directories: Any) -> tuple[Path, ...]:
    """Directories as absolute paths; relative ones start at the root."""
    return tuple((root / path).resolve() for path in _expand_paths(directories))


def _expand_paths(values: Any) -> list[Path]:
    return [Path(path).expanduser() for path in _as_tuple(values)]


def _open_root(directory: DirectoryLike, *, writable: bool) -> WorkspaceRoot:
    configured = Path(directory).expanduser().absolute()
    path = configured.resolve()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        problem = "is not a directory" if error.errno == errno.ENOTDIR else (error.strerror or "").lower()
        raise DefinitionError(
            f"The workspace {configured} cannot be opened: {problem}.", fix="name an existing directory."
        ) from None
    return WorkspaceRoot(path, writable, [descriptor], tuple({configured.parts[1:], path.parts[1:]}))


def _refuse_outside(root: DirectoryLike, limit: str) -> None:
    if not Path(root).expanduser().resolve().is_relative_to(Path(limit).expanduser().resolve()):
        raise DefinitionError(
            f"The workspace {os.fspath(root)} is outside {limit}, the limit that {ROOT_VARIABLE} sets.",
            fix="choose a folder inside it, or change the variable.",
        )


def _within_limit(directories: Any, limit: str) -> list[DirectoryLike]:
    return [each for each in _as_tuple(directories) if _is_within_root_limit(each, limit)]


def _is_within_root_limit(directory: DirectoryLike, limit: str) -> bool:
    """Whether a directory is inside the root that the environment sets; logs a warning if not."""
    if Path(directory).expanduser().resolve().is_relative_to(Path(limit).expanduser().resolve()):
        return True
    log.warning("Ignored the workspace directory %s: it is outside %s, set by %s.", directory, limit, ROOT_VARIABLE)
    return False


def _display_prefix(path: Path, main_root: Path) -> str:
    if not path.is_relative_to(main_root):
        return path.as_posix()
    below = path.relative_to(main_root).as_posix()
    return "" if below == "." else below


def _validate_path_encoding(path: str, quoted_path: str) -> None:
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise InvalidArguments(f"{quoted_path} holds characters that no file name can have.") from None
    if length > _MAX_PATH_BYTES:
        raise InvalidArguments(f"{quoted_path} is too long for a path: it has {len(path):,} characters.")


def _close_all(descriptor_lists: list[list[int]], callbacks: list[Callable[[], None]]) -> None:
    while callbacks:
        callbacks.pop()()
    for descriptors in descriptor_lists:
        while descriptors:
            with suppress(OSError):
                os.close(descriptors.pop())
