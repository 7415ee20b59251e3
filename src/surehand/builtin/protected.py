"""Protected: paths in a workspace that the host itself runs or keeps. No tool may change them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surehand.sandbox.jail import Shown

Parts = tuple[str, ...]
GIT = (".git/hooks", ".git/config")
"""What git runs, and where it is told what to run."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Absolute paths, as their parts."""

    fixed: tuple[Parts, ...]
    """To be read, and not to be changed."""
    private: tuple[Parts, ...]
    """Not even to be read, nor what lies beside them under such a name, as `calls.db-wal` beside `calls.db`."""

    @classmethod
    def of(cls, root: Path, fixed: Iterable[Path], private: Iterable[Path]) -> Protected:
        """What was named, git's own hooks and settings, and the environment that this program runs in."""
        git = [root / ".git"] if (root / ".git").is_file() else [root / path for path in GIT]
        own = [Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []
        named = [*(root / path for path in fixed), *git, *own]
        return cls(_parts(named), _parts(root / path for path in private))

    def changes(self, real: Parts, *, whole: bool) -> bool:
        """Whether changing that path would change something protected; if whole, with all that is in it."""
        around = whole and any(path[: len(real)] == real for path in self.fixed + self.private)
        return around or self.hides(real) or any(real[: len(path)] == path for path in self.fixed)

    def hides(self, real: Parts) -> bool:
        """Whether that path is not to be read."""
        return any(real[: len(path) - 1] == path[:-1] and _belongs(real, path) for path in self.private)

    def shown_in(self, folder: Path) -> list[Shown]:
        """How a sandbox shows them in a folder that can be written to.

        The folders around them become mounts of their own: then they cannot be moved away, and others put in place.
        """
        fixed = [path for parts in self.fixed if folder in (path := Path("/", *parts)).parents and path.exists()]
        private = [path for parts in self.private if folder in (path := Path("/", *parts)).parents]
        around = {outer for path in (*fixed, *private) for outer in path.parents if folder in outer.parents}
        hidden = [file for path in private for file in _beside(path)]
        return [
            *(Shown(path, writable=True) for path in sorted(around) if path.is_dir()),
            *(Shown(path) for path in fixed),
            *(Shown(path, hidden=True) for path in hidden),
        ]


def _parts(paths: Iterable[Path]) -> tuple[Parts, ...]:
    return tuple(path.absolute().parts[1:] for path in paths)


def _belongs(real: Parts, path: Parts) -> bool:
    name = real[len(path) - 1 : len(path)]
    return bool(name) and (name[0] == path[-1] or name[0].startswith(f"{path[-1]}-"))


def _beside(path: Path) -> list[Path]:
    if not path.parent.is_dir():
        return []
    return [file for file in path.parent.iterdir() if _belongs(file.parts[1:], path.parts[1:]) and file.is_file()]
