"""Stories that outlive their process: each is told on a SQLite file and on PostgreSQL.

There most of them are long: what a server keeps is tested in `tests/store`, and what several do to it at once here.
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
from tests.postgres import Schemas
from tests.room import tmp_path as tmp_path

POSTGRES = pytest.param("postgres", marks=pytest.mark.long)
EVERYWHERE = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
"""A mark for stories whose point is what several do at once: no two databases keep them apart in the same way."""


def fresh(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database."""
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
    """An empty database that can be opened again, and twice at once."""
    return fresh(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", POSTGRES, "memory"])
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
    monkeypatch.setattr(driver, "RECOVERY_GRACE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the last of a thousand who ask at once waits for long."""
    monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 60.0)


class Child:
    """Another process on the same store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> dict[str, Any]:
        """The next thing that it tells."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = await self._process.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def started(module: str, *story: str) -> AsyncIterator[Child]:
    """Another process that tells a story of a module."""
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = Child(await asyncio.create_subprocess_exec(sys.executable, "-m", module, *story, **pipes))
    try:
        yield process
    finally:
        await process.kill()


@pytest.fixture
def child() -> Callable[..., Any]:
    """Start another process: `async with child("call", address, "pay", "c1", "5") as process`."""
    return partial(started, "tests.durable.child")
