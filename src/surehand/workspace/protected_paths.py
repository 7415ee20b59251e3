"""Which paths of a workspace need a question first (sensitive names), and which no tool may change or read.

`Workspace` builds both; `WorkspacePath` enforces them, and a sandbox gets them as mounts. What this program runs, keeps
and imports is looked up at each use, because it may load a module or open a store at any time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from surehand.core.private_paths import PRIVATE_PATHS, is_store_file
from surehand.workspace.git_paths import git_protected_paths, refuses_git_path
from surehand.workspace.import_guard import (
    installation_folders,
    is_metadata_folder,
    is_open_package,
    module_folders_below,
    module_names,
    shadowed_module,
)
from surehand.workspace.program_files import (
    BYTECODE_FOLDER,
    bytecode_folders,
    executable_folders,
    is_importable_file,
    loaded_files_below,
)
from surehand.workspace.started_programs import registered_files_below

PathParts = tuple[str, ...]
SENSITIVE_NAME_GLOBS = (
    ".env*", "*.env", "*credential*", "*secret*", "*password*", ".netrc", "_netrc", ".pgpass",
    ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db", "*.ppk", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store",
)  # fmt: skip
"""Globs for the names on a path, directories included, that look like keys or credentials. Case does not matter."""


def build_name_matcher(globs: Iterable[str]) -> Callable[[Iterable[str]], bool]:
    """Return a function that checks whether any name on a path matches one of the globs."""
    pattern = re.compile("|".join(translate(glob.casefold()) for glob in globs) or r"(?!)")
    return lambda names: any(pattern.match(name.casefold()) for name in names)


@dataclass(frozen=True, slots=True)
class WorkspaceMount:
    """A path of a workspace as a sandbox has to mount it."""

    path: Path
    writable: bool = False
    descriptor: int | None = None
    hidden: bool = False
    """Whether the path exists in the sandbox but cannot be read there."""


_OWN_FILE_MESSAGE = "{path} is, or holds, what this program itself runs or keeps, and stays as it is."
_SHADOWING_FILE_MESSAGE = (
    "this program imports the module {module}, and would import {path} instead. Choose another name."
)
_BYTECODE_MESSAGE = "{path} is bytecode, which Python would run in place of the source. Write the source."


@dataclass(frozen=True, slots=True)
class ProtectedPaths:
    """Paths below the roots of a workspace that tools may not change or not even read. All are absolute."""

    roots: tuple[Path, ...]
    write_protected: tuple[Path, ...]
    """Configured paths that tools may read and not change. One that does not exist may not be created."""
    private: tuple[Path, ...]
    """Configured paths that tools may not read either, nor files beside them such as `calls.db-wal`."""

    @classmethod
    def for_roots(
        cls, roots: Iterable[Path], main_root: Path, write_protected: Iterable[Path], private: Iterable[Path]
    ) -> ProtectedPaths:
        """Resolve configured paths, of which relative ones start at the main root."""
        return cls(
            tuple(roots),
            tuple((main_root / path).absolute() for path in write_protected),
            tuple((main_root / path).absolute() for path in private),
        )

    # File tools

    def change_problem(self, real_parts: PathParts, *, whole_tree: bool, creates: bool) -> str | None:
        """Why a path may not be changed, with `{path}` for its name; None if it may.

        Args:
            whole_tree: whether everything below the path changes with it.
            creates: whether something is created at the path, and not only removed.
        """
        path = Path("/", *real_parts)
        if self.forbids_reading(real_parts) or any(_is_at_or_below(path, each) for each in self._fixed_paths()):
            return _OWN_FILE_MESSAGE
        if refuses_git_path(path, self.roots, creates=creates):
            return _OWN_FILE_MESSAGE
        if whole_tree and any(path in protected.parents for protected in self._all_paths()):
            return _OWN_FILE_MESSAGE
        if creates:
            return self._creation_problem(path)
        return None

    def _creation_problem(self, path: Path) -> str | None:
        if BYTECODE_FOLDER in path.parts and is_importable_file(path.name):
            return _BYTECODE_MESSAGE
        for folder in self._import_folders():
            if folder not in path.parents:
                continue
            entry, *below = path.relative_to(folder).parts
            # A folder takes the place of a module only if it is a package, or is moved there as a whole.
            is_package_file = len(below) == 1 and below[0].partition(".")[0] == "__init__"
            module = shadowed_module(entry, module_names(folder))
            if module is None:
                continue
            # In a package without `__init__.py` each module and each folder counts.
            is_module = is_importable_file(path.name) or "." not in path.name
            if not below or is_package_file or is_metadata_folder(entry) or (is_module and is_open_package(module)):
                return _SHADOWING_FILE_MESSAGE.replace("{module}", repr(module))
        return None

    def forbids_reading(self, real_parts: PathParts) -> bool:
        """Whether the path is private."""
        path = Path("/", *real_parts)
        if any(is_store_file(path, store) for store in (*self.private, *PRIVATE_PATHS.stores)):
            return True
        return any(_is_at_or_below(path, folder) for folder in self._private_folders())

    def has_private_paths(self) -> bool:
        """Whether anything below the roots is private."""
        return bool(self.private) or any(True for _ in self._private_paths())

    # Sandbox

    def sandbox_mounts(self, directory: Path) -> list[WorkspaceMount]:
        """The mounts that protect these paths in a writable directory of a sandbox.

        The directories around a protected path become mounts of their own: a mount point cannot be renamed, so a
        command cannot move the protected path away and put another in its place. Stores and secrets of this process
        are left to the sandbox, which hides them whatever it mounts.
        """
        # A mount needs a mount point: a folder that does not exist cannot be protected, and a command could create it.
        for folder in self._bytecode_folders(directory):
            folder.mkdir(exist_ok=True)
        fixed = {path for path in self._fixed_paths() if directory in path.parents and path.exists()}
        fixed |= {path for path in git_protected_paths(directory) if path.exists()}
        imported = {path for path in map(Path, module_folders_below(directory)) if path.is_dir()}
        fixed |= {path for folder in imported for path in _metadata_folders(folder)}
        hidden = [file for path in self.private if directory in path.parents for file in _private_files_beside(path)]
        around = {
            outer for path in (*fixed, *hidden, *imported) for outer in path.parents if directory in outer.parents
        }
        around |= imported - {directory}
        outermost = _outermost(fixed)
        return [
            *(WorkspaceMount(path, writable=True) for path in sorted(around) if _is_open_folder(path, outermost)),
            *(WorkspaceMount(path) for path in sorted(outermost)),
            *(WorkspaceMount(path, hidden=True) for path in hidden),
        ]

    def _fixed_paths(self) -> Iterator[Path]:
        """Paths that stay as they are, with everything below them."""
        yield from self.write_protected
        yield from PRIVATE_PATHS.store_links
        yield from map(Path, installation_folders())
        for root in self.roots:
            yield from executable_folders(root)
            yield from registered_files_below(root)
            yield from loaded_files_below(root)
            yield from self._bytecode_folders(root)
            yield from (path for path in map(Path, module_folders_below(root)) if path.is_file())  # archives

    def absent_paths(self) -> list[Path]:
        """Paths below the roots that do not exist and that no command may create."""
        searched = [
            *map(Path, installation_folders()),
            *(path for root in self.roots for path in executable_folders(root)),
        ]
        paths = [*self.write_protected, *self.private, *searched]
        return [path for path in paths if not path.exists() and any(root in path.parents for root in self.roots)]

    def _bytecode_folders(self, directory: Path) -> set[Path]:
        """Where Python keeps the bytecode of what this program has loaded from a directory."""
        folders = bytecode_folders(path for path in loaded_files_below(directory) if path.is_file())
        return {folder for folder in folders if directory in folder.parents}

    def _import_folders(self) -> Iterator[Path]:
        for root in self.roots:
            yield from map(Path, module_folders_below(root))

    def _private_folders(self) -> Iterator[Path]:
        """Private folders; one that contains a root was opened on purpose."""
        for folder in PRIVATE_PATHS.folders:
            if not any(_is_at_or_below(root, folder) for root in self.roots):
                yield folder

    def _private_paths(self) -> Iterator[Path]:
        for root in self.roots:
            yield from PRIVATE_PATHS.stores_below(root)
            yield from PRIVATE_PATHS.folders_below(root)

    def _all_paths(self) -> Iterator[Path]:
        yield from self._fixed_paths()
        yield from self.private
        yield from self._private_paths()
        yield from self._import_folders()
        for root in self.roots:
            yield from (path for path in git_protected_paths(root) if path.exists())


def _is_at_or_below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _outermost(paths: set[Path]) -> set[Path]:
    """The paths without those that are below another one."""
    return {path for path in paths if not any(outer in paths for outer in path.parents)}


def _is_open_folder(path: Path, protected: set[Path]) -> bool:
    return path.is_dir() and not any(_is_at_or_below(path, outer) for outer in protected)


def _metadata_folders(folder: Path) -> list[Path]:
    """Metadata of distributions in a folder, such as `project.egg-info`."""
    return [folder / name for name in os.listdir(folder) if is_metadata_folder(name)]


def _private_files_beside(path: Path) -> list[Path]:
    """The private file itself and its siblings with a suffix, as far as they exist."""
    if not path.parent.is_dir():
        return []
    return [file for file in path.parent.iterdir() if is_store_file(file, path)]
