"""A folder with a workspace full of links that lead out of it, and files outside that no tool may touch."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Any

CANARY = "canary-7f3a9c"
"""Text of every file outside, and of no other file."""
OUTSIDE_FILE_NAME = "only-outside-5d1e"
"""The name of an empty file in every folder outside."""
OUTSIDE_FILE_BYTES = 4321
"""Size of every other file outside, and of no file inside."""
Snapshot = dict[str, tuple[Any, ...]]


class GuardedTree:
    """`allowed` is the workspace; everything beside it is outside."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "allowed"
        self._make_outside()
        self.restore()
        self.expected_outside = self.snapshot_outside()

    def _make_outside(self) -> None:
        for name in ("outside/secret.txt", "outside/deep/secret.txt", "allowed_evil/secret.txt", "secret.txt"):
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{CANARY}\n".ljust(OUTSIDE_FILE_BYTES))
            (path.parent / OUTSIDE_FILE_NAME).touch()

    def restore_moved_file(self) -> None:
        """Write the file again that a tool has moved away."""
        (self.root / "inside.txt").write_text("inside\n")

    def restore(self) -> None:
        """Restore the workspace to its first state."""
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

    def snapshot_outside(self) -> Snapshot:
        """Everything outside: names, kinds, modes, times and contents."""
        snapshot: Snapshot = {}
        for folder, folders, names in os.walk(self.base):
            if Path(folder) == self.base:
                folders.remove("allowed")
            for path in (Path(folder), *(Path(folder) / name for name in names)):
                snapshot[str(path.relative_to(self.base))] = _file_state(path)
        return snapshot

    def changed_outside(self) -> list[str]:
        """Names outside the workspace that have changed."""
        now = self.snapshot_outside()
        return sorted(
            name for name in {*now, *self.expected_outside} if now.get(name) != self.expected_outside.get(name)
        )


def _file_state(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
    # Without the link count: deleting the hard link inside changes it, which is allowed.
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_uid, content
