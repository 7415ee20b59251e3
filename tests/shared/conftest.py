"""Limits that hold across processes: each story is told on a SQLite file and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from surehand.store.postgres import database as driver
from surehand.store.postgres import pool
from tests.durable.conftest import POSTGRES, fresh, started
from tests.room import tmp_path as tmp_path


@pytest.fixture(params=["sqlite", POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database that can be opened again, and twice at once."""
    return fresh(request.param, request, tmp_path)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has only just started, and yet everybody is back."""
    monkeypatch.setattr(driver, "RECOVERY_GRACE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the last of a thousand who ask at once waits for long."""
    monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 60.0)


@pytest.fixture
def child() -> Callable[..., Any]:
    """Start another process: `async with child("pause", address) as process`."""
    return partial(started, "tests.shared.child")
