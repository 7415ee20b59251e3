"""The choice of database is one fixture: every store test runs on SQLite (file and memory) and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_numbers = count(1)


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    if request.param == "memory":
        return ":memory:"
    return fresh_postgres(request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgres"])
def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database that can be opened twice."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return fresh_postgres(request.getfixturevalue("postgres"))


def fresh_postgres(server: Any) -> str:
    """A new database on the server."""
    name = f"store_{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


Fresh = Callable[[], str]
