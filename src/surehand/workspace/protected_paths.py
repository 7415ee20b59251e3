"""Protected: paths in a workspace that the host itself runs or keeps. No tool may change them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

SENSITIVE_NAME_GLOBS = (
    ".env*", "*.env", "*credential*", "*secret*", "*password*", ".netrc", "_netrc", ".pgpass",
    ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db", "*.ppk", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store",
)  # fmt: skip
"""Globs over the names on a path, its folders included; upper and lower case are the same."""


def build_name_matcher(globs: Iterable[str]) -> Callable[[Iterable[str]], bool]:
    """Whether any of the names on a path fits one of the globs."""
    found = re.compile("|".join(translate(glob.casefold()) for glob in globs) or r"(?!)")
    return lambda parts: any(found.match(part.casefold()) for part in parts)


PathParts = tuple[str, ...]
GIT_PROTECTED_PATHS = (".git/hooks", ".git/config")
"""What git runs, and where it is told what to run."""


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
    """Absolute paths, as their parts."""

    write_protected: tuple[PathParts, ...]
    """To be read, and not to be changed."""
    private: tuple[PathParts, ...]
    """Not even to be read, nor what lies beside them under such a name, as `calls.db-wal` beside `calls.db`."""

    @classmethod
    def for_root(cls, root: Path, write_protected: Iterable[Path], private: Iterable[Path]) -> ProtectedPaths:
        """What was named, git's own hooks and settings, and the environment that this program runs in."""
        git = [root / ".git"] if (root / ".git").is_file() else [root / path for path in GIT_PROTECTED_PATHS]
        own = [Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []
        named = [*(root / path for path in write_protected), *git, *own]
        return cls(_absolute_parts(named), _absolute_parts(root / path for path in private))

    def forbids_change(self, real_parts: PathParts, *, whole_tree: bool) -> bool:
        """Whether changing that path would change something protected; if whole, with all that is in it."""
        around = whole_tree and any(
            path[: len(real_parts)] == real_parts for path in self.write_protected + self.private
        )
        return (
            around
            or self.forbids_reading(real_parts)
            or any(real_parts[: len(path)] == path for path in self.write_protected)
        )

    def forbids_reading(self, real_parts: PathParts) -> bool:
        """Whether that path is not to be read."""
        return any(
            real_parts[: len(path) - 1] == path[:-1] and _is_private_name(real_parts, path) for path in self.private
        )

    def sandbox_mounts(self, directory: Path) -> list[WorkspaceMount]:
        """How a sandbox shows them in a folder that can be written to.

        The folders around them become mounts of their own: then they cannot be moved away, and others put in place.
        """
        fixed = [
            path for parts in self.write_protected if directory in (path := Path("/", *parts)).parents and path.exists()
        ]
        private = [path for parts in self.private if directory in (path := Path("/", *parts)).parents]
        around = {outer for path in (*fixed, *private) for outer in path.parents if directory in outer.parents}
        hidden = [file for path in private for file in _private_files_beside(path)]
        return [
            *(WorkspaceMount(path, writable=True) for path in sorted(around) if path.is_dir()),
            *(WorkspaceMount(path) for path in fixed),
            *(WorkspaceMount(path, hidden=True) for path in hidden),
        ]


def _absolute_parts(paths: Iterable[Path]) -> tuple[PathParts, ...]:
    return tuple(path.absolute().parts[1:] for path in paths)


def _is_private_name(real_parts: PathParts, private_parts: PathParts) -> bool:
    name = real_parts[len(private_parts) - 1 : len(private_parts)]
    return bool(name) and (name[0] == private_parts[-1] or name[0].startswith(f"{private_parts[-1]}-"))


def _private_files_beside(path: Path) -> list[Path]:
    if not path.parent.is_dir():
        return []
    return [
        file for file in path.parent.iterdir() if _is_private_name(file.parts[1:], path.parts[1:]) and file.is_file()
    ]
