"""Names that a command must not create, and that no mount can mask because they do not exist yet.

The shell looks for them while a command runs and when it has ended. What has appeared is renamed, so that neither this
program nor git takes it up, and the command is ended.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from surehand.workspace.git_paths import absent_git_paths
from surehand.workspace.import_guard import (
    has_package_file,
    is_open_package,
    module_folders_below,
    module_names,
    shadowed_module,
)

log = logging.getLogger("surehand")
REFUSED_SUFFIX = ".refused"
_MAX_NAME_BYTES = 200
_FileVersion: TypeAlias = tuple[int, int]
"""Inode and change time."""


class RefusedNames:
    """The refused names in the writable folders of a workspace, compared with the time when a command started."""

    def __init__(self, folders: Sequence[Path], absent_paths: Sequence[Path]) -> None:
        """Remember what is there.

        Args:
            absent_paths: paths that do not exist and stay so.
        """
        self._import_folders = [entry for folder in folders for entry in module_folders_below(folder)]
        self._versions_at_start = {path: _version(path) for path in self._module_paths()}
        git_paths = [path for folder in folders for path in absent_git_paths(folder)]
        self._absent_paths = [path for path in (*absent_paths, *git_paths) if not os.path.lexists(path)]
        self.renamed_paths: list[Path] = []
        """Paths that appeared and were renamed."""

    def rename_new_paths(self) -> bool:
        """Rename what has appeared since the start; returns whether anything has, now or earlier."""
        for path in list(self._new_paths()):
            target = _free_name(path)
            try:
                _rename(path, target)
            except OSError:
                continue  # gone again, or in use as a mount; the next look decides
            self.renamed_paths.append(path)
            log.warning("A command created %s, which this program or git would run. It is now %s.", path, target)
        return bool(self.renamed_paths)

    def _new_paths(self) -> Iterator[Path]:
        yield from (path for path in self._absent_paths if os.path.lexists(path))
        for path in self._module_paths():
            if self._versions_at_start.get(path) != _version(path):
                yield path

    def _module_paths(self) -> Iterator[Path]:
        """Files and packages that Python would import in place of a module."""
        for folder in self._import_folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            modules = module_names(folder)
            for name in names:
                module = shadowed_module(name, modules)
                if module is None:
                    continue
                path = os.path.join(folder, name)
                if "." in name or has_package_file(path) or (os.path.isdir(path) and is_open_package(module)):
                    yield Path(path)

    @property
    def message(self) -> str:
        """What happened, for the model."""
        names = ", ".join(path.name for path in self.renamed_paths)
        problem = f"it created {names}, which the program around you or git would run, and which is now"
        return f"stopped because {problem} renamed to end in {REFUSED_SUFFIX}. Choose other names."


def _version(path: Path) -> _FileVersion | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if os.path.isdir(path) and not os.path.islink(path):
        return status.st_ino, 0  # a folder's change time changes with each of its entries
    return status.st_ino, status.st_ctime_ns


def _rename(path: Path, target: Path) -> None:
    try:
        os.rename(path, target)
    except PermissionError:
        # A command can take away the right to write to its folder; the folder is ours all the same.
        os.chmod(path.parent, stat.S_IMODE(os.stat(path.parent).st_mode) | stat.S_IRWXU)
        os.rename(path, target)


def _free_name(path: Path) -> Path:
    # Shortened: with the suffix, a name must not be longer than a file system allows.
    name = os.fsdecode(os.fsencode(path.name)[:_MAX_NAME_BYTES])
    target = path.with_name(f"{name}{REFUSED_SUFFIX}")
    number = 2
    while os.path.lexists(target):
        target = path.with_name(f"{name}{REFUSED_SUFFIX}.{number}")
        number += 1
    return target
