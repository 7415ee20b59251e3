"""Fixtures for tests of limits that processes share, each on a SQLite file and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from surehand.store.postgres import database as driver
from surehand.store.postgres import pool
from tests.durable.conftest import POSTGRES, new_address, start_child
from tests.temp_folders import tmp_path as tmp_path


@pytest.fixture(params=["sqlite", POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database that can be opened several times, also at once."""
    return new_address(request.param, request, tmp_path)


@pytest.fixture(autouse=True)
def no_recovery_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has just started, but the tests need not wait for clients to reconnect."""
    monkeypatch.setattr(driver, "RECOVERY_GRACE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def connection_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, the last of a thousand concurrent requests waits long for a connection."""
    monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 60.0)


@pytest.fixture
def child() -> Callable[..., Any]:
    """Start another process: `async with child("pause", address) as process`."""
    return partial(start_child, "tests.shared.child_process")
