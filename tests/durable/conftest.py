"""Fixtures for tests of calls that outlive their process, each on a SQLite file and on PostgreSQL.

Most tests on PostgreSQL are long: `tests/store` tests what a server stores, these test what several processes do.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from surehand.store.postgres import database as driver
from surehand.store.postgres import pool
from tests.postgres_server import Schemas
from tests.temp_folders import tmp_path as tmp_path

POSTGRES = pytest.param("postgres", marks=pytest.mark.long)
ON_BOTH_DATABASES = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
"""A mark for tests of concurrency, which every database handles in its own way."""


def new_address(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of a new, empty database."""
    if kind == "memory":
        return ":memory:"
    if kind == "sqlite":
        return str(folder / f"store-{uuid4().hex}.db")
    schemas: Schemas = request.getfixturevalue("schemas")
    name = schemas.empty()
    request.addfinalizer(lambda: schemas.give_back(name))
    return schemas.address(name)


@pytest.fixture(params=["sqlite", POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database that can be opened several times, also at once."""
    return new_address(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", POSTGRES, "memory"])
def any_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, for tests that open it once."""
    return new_address(request.param, request, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty SQLite file, whose time is the runtime's clock."""
    return str(tmp_path / "store.db")


@pytest.fixture
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], dict[str, str]]:
    """Creates an empty database of each kind, to compare them."""
    return lambda: {kind: new_address(kind, request, tmp_path) for kind in ("sqlite", "postgres", "memory")}


@pytest.fixture(autouse=True)
def no_recovery_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has just started, but the tests need not wait for clients to reconnect."""
    monkeypatch.setattr(driver, "RECOVERY_GRACE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def connection_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, the last of a thousand concurrent requests waits long for a connection."""
    monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 60.0)


class Child:
    """Another process on the same store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read_message(self) -> dict[str, Any]:
        """The next message of the process."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = await self._process.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def resume(self) -> None:
        """Send a line, for which the process waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def start_child(module: str, *arguments: str) -> AsyncIterator[Child]:
    """Start a module as another process, and kill it at the end."""
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = Child(await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments, **pipes))
    try:
        yield process
    finally:
        await process.kill()


@pytest.fixture
def child() -> Callable[..., Any]:
    """Start another process: `async with child("call", address, "pay", "c1", "5") as process`."""
    return partial(start_child, "tests.durable.child_process")
