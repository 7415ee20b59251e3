"""The choice of database is one fixture: every store test runs on SQLite (file and memory) and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.room import tmp_path as tmp_path


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
    """A new schema on the server: thirty times as fast as a database, and as empty."""
    name = f"store_{uuid4().hex}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    uri = str(server.get_uri())
    return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{name}"


Fresh = Callable[[], str]
