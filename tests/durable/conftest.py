"""Stories that outlive their process: each is told on a SQLite file and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from toolwright.store import postgres as driver

_numbers = count(1)


def fresh(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database."""
    if kind == "memory":
        return ":memory:"
    number = next(_numbers)
    if kind == "sqlite":
        return str(folder / f"store-{number}.db")
    server: Any = request.getfixturevalue("postgres")
    server.psql(f"CREATE SCHEMA durable_{number}")  # thirty times as fast as a database, and as empty
    uri = server.get_uri()
    return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3Ddurable_{number}"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database that can be opened again, and twice at once."""
    return fresh(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def any_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, for stories that open it once."""
    return fresh(request.param, request, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty SQLite file, whose time is the runtime's clock."""
    return str(tmp_path / "store.db")


@pytest.fixture
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], dict[str, str]]:
    """An empty database of each kind, to compare what they say."""
    return lambda: {kind: fresh(kind, request, tmp_path) for kind in ("sqlite", "postgres", "memory")}


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has only just started, and yet everybody is back."""
    monkeypatch.setattr(driver, "SETTLING", 0.0)
