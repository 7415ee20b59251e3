"""Control groups: they bound how many processes a command has where its own limit does not count, as for root."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_group_numbers = itertools.count()


class ControlGroup:
    """A control group of one command."""

    def __init__(self, max_processes: int) -> None:
        self._folder = _parent_group() / f"surehand-{os.getpid()}-{next(_group_numbers)}"
        self._folder.mkdir()
        (self._folder / "pids.max").write_text(str(max_processes))

    @classmethod
    def try_create(cls, max_processes: int) -> ControlGroup | None:
        """A group, where this process may make one."""
        try:
            return cls(max_processes)
        except OSError:
            return None

    def add_process(self, pid: int) -> None:
        """Everything that a process starts from now on counts."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Once it is empty."""
        with suppress(OSError):
            self._folder.rmdir()


@cache
def _parent_group() -> Path:
    """Our own group, and in it nothing left by a process that was killed."""
    folder = _own_group()
    for left in folder.glob("surehand-*-*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            with suppress(OSError):
                left.rmdir()
    return folder


def _own_group() -> Path:
    """Where our group's files are: in the first version each resource has a tree, in the second there is one."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    paths = {name: path for _, names, path in groups for name in names.split(",")}
    if "pids" in paths:
        return _find_group_folder("cgroup", "pids", paths["pids"])
    folder = _find_group_folder("cgroup2", "", paths[""])
    if "pids" not in (folder / "cgroup.subtree_control").read_text().split():
        (folder / "cgroup.subtree_control").write_text("+pids")
    return folder


def _find_group_folder(filesystem: str, option: str, group_path: str) -> Path:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, place = before.split()[3:5]
        if after.split()[0] == filesystem and (not option or option in after.split()[2].split(",")):
            return Path(place, os.path.relpath(group_path, root))
    raise FileNotFoundError(f"no {filesystem} is mounted")
