"""A folder in memory for what tests keep in files: a disk tells the same, and takes much longer to say that it is kept.

A killed process loses nothing that the system holds for it; only a machine that is switched off would.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_ENOUGH = 2 << 30
"""Bytes that have to be free there. Containers often have next to nothing."""


def _in_memory() -> str | None:
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > _ENOUGH else None


ROOM = _in_memory()
"""Where temporary folders are made; `None` where they are made by default."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory, for those who import it."""
    yield from _folder(ROOM)


@pytest.fixture(name="tmp_path")
def tmp_path_on_disk() -> Iterator[Path]:
    """For everybody else: a sandbox has a `/dev/shm` of its own, and so sees nothing of what is in that one."""
    yield from _folder(None)


def _folder(room: str | None) -> Iterator[Path]:
    """Gone after its test. Pytest would keep it, and look through those of all tests before at each further one."""
    folder = Path(tempfile.mkdtemp(prefix="surehand-", dir=room))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
