"""One fixture chooses the database: every store test runs on SQLite (file and memory) and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durable.conftest import connection_timeout as connection_timeout
from tests.durable.conftest import new_address
from tests.temp_folders import tmp_path as tmp_path


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    return new_address(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database that can be opened twice."""
    return new_address(request.param, request, tmp_path)
