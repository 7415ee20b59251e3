"""Linux control groups that limit how many processes a command has.

`child_process` uses them for root, to whom RLIMIT_NPROC does not apply.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_group_numbers = itertools.count()


class ControlGroup:
    """The control group of one command."""

    def __init__(self, max_processes: int) -> None:
        self._folder = _parent_group() / f"surehand-{os.getpid()}-{next(_group_numbers)}"
        self._folder.mkdir()
        (self._folder / "pids.max").write_text(str(max_processes))

    @classmethod
    def try_create(cls, max_processes: int) -> ControlGroup | None:
        """Create a group, or return None where this process may not."""
        try:
            return cls(max_processes)
        except OSError:
            return None

    def add_process(self, pid: int) -> None:
        """Move a process into the group; processes that it starts from now on belong to the group too."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the group, if it is empty."""
        with suppress(OSError):
            self._folder.rmdir()


@cache
def _parent_group() -> Path:
    """The group of this process, after removing groups that killed processes of ours left in it."""
    folder = _own_group()
    for group in folder.glob("surehand-*-*"):
        owner_pid = group.name.split("-")[1]
        if not Path("/proc", owner_pid).exists():
            with suppress(OSError):
                group.rmdir()
    return folder


def _own_group() -> Path:
    """The folder of this process's group: cgroup v1 has one tree for each resource, v2 one tree for all."""
    # Each line is `hierarchy:controllers:path`; v2 has an empty list of controllers.
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    paths = {controller: path for _, controllers, path in lines for controller in controllers.split(",")}
    if "pids" in paths:
        return _find_group_folder("cgroup", "pids", paths["pids"])
    folder = _find_group_folder("cgroup2", "", paths[""])
    subtree_control = folder / "cgroup.subtree_control"
    if "pids" not in subtree_control.read_text().split():
        subtree_control.write_text("+pids")
    return folder


def _find_group_folder(filesystem: str, option: str, group_path: str) -> Path:
    """The folder of a group below the mount point of its hierarchy."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        root, mount_point = mount.split()[3:5]
        kind, _, options = source.split()[:3]
        if kind == filesystem and (not option or option in options.split(",")):
            return Path(mount_point, os.path.relpath(group_path, root))
    raise FileNotFoundError(f"no {filesystem} is mounted")
