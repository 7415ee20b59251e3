"""A workspace with a secret file outside it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from surehand.workspace.workspace import Workspace


@dataclass(frozen=True)
class Place:
    workspace: Workspace
    outside: Path

    @property
    def root(self) -> Path:
        return self.workspace.root


@pytest.fixture
def place(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("s3cret-of-the-host\n")
    workspace = Workspace(tmp_path / "inside")
    yield Place(workspace, tmp_path / "outside")
    workspace.close()
