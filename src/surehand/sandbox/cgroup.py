"""Linux control groups that limit the processes and the memory of a command, all of its processes together.

`child_process` uses them where this process may create them: root may, and others where a subtree is delegated to them.
RLIMIT_NPROC does not apply to root, and no resource limit counts shared memory or several processes together.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_group_numbers = itertools.count()
_LIMIT_FILES = {"pids": ("pids.max", "pids.max"), "memory": ("memory.limit_in_bytes", "memory.max")}
"""The file with the limit of each controller, in cgroup v1 and v2."""
_SWAP_FILES = {"memory.limit_in_bytes": "memory.memsw.limit_in_bytes", "memory.max": "memory.swap.max"}


class ControlGroup:
    """The control group of one command: in cgroup v1 a folder for each controller, in v2 one folder."""

    def __init__(self, max_processes: int) -> None:
        self._folders: list[Path] = []
        self._name = f"surehand-{os.getpid()}-{next(_group_numbers)}"
        self._set_limit("pids", max_processes)

    def limit_memory(self, max_bytes: int) -> bool:
        """Limit the memory of all processes together, with shared memory; returns whether that is possible here."""
        try:
            self._set_limit("memory", max_bytes)
        except (OSError, StopIteration, KeyError):  # the controller is missing, or may not be used
            return False
        return True

    def _set_limit(self, controller: str, limit: int) -> None:
        folder = _parent_group(controller) / self._name
        if folder not in self._folders:
            folder.mkdir()
            self._folders.append(folder)
        file = next(file for file in _LIMIT_FILES[controller] if (folder / file).exists())
        (folder / file).write_text(str(limit))
        swap_file = _SWAP_FILES.get(file)
        if swap_file is not None and (folder / swap_file).exists():
            # Version 1 counts memory and swap together, version 2 swap alone.
            (folder / swap_file).write_text("0" if swap_file == "memory.swap.max" else str(limit))

    @classmethod
    def try_create(cls, max_processes: int) -> ControlGroup | None:
        """Create a group, or return None where this process may not."""
        try:
            return cls(max_processes)
        except (OSError, StopIteration, KeyError):
            return None

    def add_process(self, pid: int) -> None:
        """Move a process into the group; processes that it starts from now on belong to the group too."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the group, if it is empty."""
        for folder in self._folders:
            with suppress(OSError):
                folder.rmdir()


@cache
def _parent_group(controller: str) -> Path:
    """The group of this process, after removing groups that killed processes of ours left in it."""
    folder = _own_group(controller)
    for group in folder.glob("surehand-*-*"):
        owner_pid = group.name.split("-")[1]
        if not Path("/proc", owner_pid).exists():
            with suppress(OSError):  # a group that still has processes cannot be removed
                group.rmdir()
    return folder


def _own_group(controller: str) -> Path:
    """The folder of this process's group: cgroup v1 has one tree for each resource, v2 one tree for all."""
    # Each line is `hierarchy:controllers:path`; v2 has an empty list of controllers.
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    paths = {name: path for _, controllers, path in lines for name in controllers.split(",")}
    if controller in paths:
        return _find_group_folder("cgroup", controller, paths[controller])
    folder = _find_group_folder("cgroup2", "", paths[""])
    subtree_control = folder / "cgroup.subtree_control"
    if controller not in subtree_control.read_text().split():
        subtree_control.write_text(f"+{controller}")
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
