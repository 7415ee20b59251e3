"""Temporary folders for tests, in memory where possible: syncing files to a disk would take most of the time.

A killed process loses nothing that the kernel holds for it, so these tests need no disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MIN_FREE_BYTES = 2 << 30
"""Free space that `/dev/shm` must have. Containers often have very little."""


def _memory_folder() -> str | None:
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > _MIN_FREE_BYTES else None


TEMP_FOLDER_PARENT = _memory_folder()
"""Parent of the temporary folders; `None` is the system's default."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, for the conftest files that import this fixture."""
    yield from _temporary_folder(TEMP_FOLDER_PARENT)


@pytest.fixture(name="tmp_path")
def tmp_path_on_disk() -> Iterator[Path]:
    """A folder on disk, the default: a sandbox mounts a `/dev/shm` of its own and cannot see ours."""
    yield from _temporary_folder(None)


def _temporary_folder(parent: str | None) -> Iterator[Path]:
    """A folder that is removed after the test. Pytest would keep it, and scan the folders of all earlier tests."""
    folder = Path(tempfile.mkdtemp(prefix="surehand-", dir=parent))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
