"""A workspace with everything that may lead out of it, and an outside that no tool may touch."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Any

CANARY = "canary-7f3a9c"
"""Stands in every file outside, and nowhere else."""
MARK = "only-outside-5d1e"
"""The name of an empty file in every folder outside."""
SIZE = 4321
"""Bytes of every other file outside, and of none inside."""
Snapshot = dict[str, tuple[Any, ...]]


class Grounds:
    """`allowed` is the workspace; all that is beside it is outside."""

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / "allowed"
        self._make_outside()
        self.restore()
        self.before = self.outside()

    def _make_outside(self) -> None:
        for name in ("outside/secret.txt", "outside/deep/secret.txt", "allowed_evil/secret.txt", "secret.txt"):
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{CANARY}\n".ljust(SIZE))
            (path.parent / MARK).touch()

    def mend(self) -> None:
        """The file that is moved away."""
        (self.root / "inside.txt").write_text("inside\n")

    def restore(self) -> None:
        """The workspace as it was."""
        if self.root.is_dir():
            for path in self.root.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (self.root / "sub/deep").mkdir(parents=True, exist_ok=True)
        for name in ("inside.txt", "sub/inside.txt", "sub/deep/inside.txt"):
            (self.root / name).write_text("inside\n")
        links = {
            "out": "../outside", "out_abs": self.base / "outside", "out_file": "../outside/secret.txt", "up": "..",
            "out_file_abs": self.base / "secret.txt", "evil": "../allowed_evil", "root": "/", "proc": "/proc/self/root",
            "cwd": "/proc/self/cwd", "in": "sub", "loop": "loop", "dangling": "../outside/new.txt", "sub/up": "../..",
            "dot": ".", "chain": "in/up", "sub/deep/far": "../../../outside",
        }  # fmt: skip
        for name, target in links.items():
            (self.root / name).symlink_to(target)
        os.link(self.base / "outside/secret.txt", self.root / "hard")

    def outside(self) -> Snapshot:
        """All that is outside: names, kinds, modes, times and content."""
        found: Snapshot = {}
        for folder, folders, names in os.walk(self.base):
            if Path(folder) == self.base:
                folders.remove("allowed")
            for path in (Path(folder), *(Path(folder) / name for name in names)):
                found[str(path.relative_to(self.base))] = _seen(path)
        return found

    def changed(self) -> list[str]:
        """What is not as it was outside."""
        now = self.outside()
        return sorted(name for name in {*now, *self.before} if now.get(name) != self.before.get(name))


def _seen(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(found.st_mode) else ""
    # The number of names of a file changes when its hard link inside is deleted, which harms nobody.
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_uid, content
