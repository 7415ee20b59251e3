"""Which paths of a workspace need a question first (sensitive names), and which no tool may change or read.

`Workspace` builds both; `WorkspacePath` enforces them, and a sandbox gets them as mounts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

PathParts = tuple[str, ...]
SENSITIVE_NAME_GLOBS = (
    ".env*", "*.env", "*credential*", "*secret*", "*password*", ".netrc", "_netrc", ".pgpass",
    ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db", "*.ppk", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store",
)  # fmt: skip
"""Globs for the names on a path, directories included, that look like keys or credentials. Case does not matter."""
GIT_PROTECTED_PATHS = (".git/hooks", ".git/config")
"""Programs that git runs, and the file that tells git which programs to run."""


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


@dataclass(frozen=True, slots=True)
class ProtectedPaths:
    """Absolute paths, each as a tuple of its parts, that tools may not change or not even read."""

    write_protected: tuple[PathParts, ...]
    """Paths that tools may read and not change."""
    private: tuple[PathParts, ...]
    """Paths that tools may not read either. Names with a suffix count too: `calls.db-wal` beside `calls.db`."""

    @classmethod
    def for_root(cls, root: Path, write_protected: Iterable[Path], private: Iterable[Path]) -> ProtectedPaths:
        """Add git's hooks and settings and this program's virtual environment to the configured paths."""
        # In a git worktree `.git` is a file that names the repository: that file is protected then.
        git_paths = [root / ".git"] if (root / ".git").is_file() else [root / path for path in GIT_PROTECTED_PATHS]
        environments = [Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []
        configured = [root / path for path in write_protected]
        return cls(
            _absolute_parts([*configured, *git_paths, *environments]),
            _absolute_parts(root / path for path in private),
        )

    def forbids_change(self, real_parts: PathParts, *, whole_tree: bool) -> bool:
        """Whether a change of the path would change a protected one; `whole_tree` includes everything below it."""
        if self.forbids_reading(real_parts):
            return True
        if any(real_parts[: len(parts)] == parts for parts in self.write_protected):
            return True
        protected = self.write_protected + self.private
        return whole_tree and any(parts[: len(real_parts)] == real_parts for parts in protected)

    def forbids_reading(self, real_parts: PathParts) -> bool:
        """Whether the path is private."""
        return any(
            real_parts[: len(parts) - 1] == parts[:-1] and _is_private_name(real_parts, parts) for parts in self.private
        )

    def sandbox_mounts(self, directory: Path) -> list[WorkspaceMount]:
        """The mounts that protect these paths in a writable directory of a sandbox.

        The directories around a protected path become mounts of their own: a mount point cannot be renamed, so a
        command cannot move the protected path away and put another in its place.
        """
        write_protected = [path for path in _paths_below(directory, self.write_protected) if path.exists()]
        private = _paths_below(directory, self.private)
        around = {
            outer for path in (*write_protected, *private) for outer in path.parents if directory in outer.parents
        }
        hidden = [file for path in private for file in _private_files_beside(path)]
        return [
            *(WorkspaceMount(path, writable=True) for path in sorted(around) if path.is_dir()),
            *(WorkspaceMount(path) for path in write_protected),
            *(WorkspaceMount(path, hidden=True) for path in hidden),
        ]


def _absolute_parts(paths: Iterable[Path]) -> tuple[PathParts, ...]:
    return tuple(path.absolute().parts[1:] for path in paths)


def _paths_below(directory: Path, all_parts: Iterable[PathParts]) -> list[Path]:
    paths = [Path("/", *parts) for parts in all_parts]
    return [path for path in paths if directory in path.parents]


def _is_private_name(real_parts: PathParts, private_parts: PathParts) -> bool:
    """Whether the name at the private path's depth is the private name, or that with a suffix such as `-wal`."""
    depth = len(private_parts)
    if len(real_parts) < depth:
        return False
    name = real_parts[depth - 1]
    private_name = private_parts[-1]
    return name == private_name or name.startswith(f"{private_name}-")


def _private_files_beside(path: Path) -> list[Path]:
    """The private file itself and its siblings with a suffix, as far as they exist."""
    if not path.parent.is_dir():
        return []
    return [
        file for file in path.parent.iterdir() if _is_private_name(file.parts[1:], path.parts[1:]) and file.is_file()
    ]
