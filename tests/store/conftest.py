"""One fixture chooses the database: every store test runs on SQLite (file and memory) and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durable.conftest import fresh
from tests.durable.conftest import patient as patient
from tests.room import tmp_path as tmp_path


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    return fresh(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database that can be opened twice."""
    return fresh(request.param, request, tmp_path)
