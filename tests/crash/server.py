"""Server: a PostgreSQL of our own that can be killed, as if its power was cut, and started again."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg

from tests.crash.process import Life
from tests.crash.scenarios import Scenario
from tests.crash.zygote import Zygote
from tests.postgres import serving
from tests.room import ROOM

DYING = 30.0
"""Seconds that its processes have to notice that the first of them is gone."""

_one_at_a_time = Lock()  # the wheel's own lock is for processes, and not for threads


class Server:
    """Each run has a database of its own on it."""

    alone = False

    def __init__(self) -> None:
        with _one_at_a_time:
            self._folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=ROOM))
            self._server: Any = serving(self._folder)
        self._numbers, self._template = count(1), ""
        # A killed process loses nothing that the system holds for it: waiting for the disk would only take time.
        self._execute("ALTER SYSTEM SET fsync = off")
        self._execute("SELECT pg_reload_conf()")

    @property
    def pid(self) -> int:
        """The first of its processes: the others end when it does."""
        return int(self._server.get_pid())

    def fresh(self, scenario: Scenario, zygote: Zygote, folder: Path) -> str:
        """The address of a new database."""
        if scenario.empty:
            return self._database("")
        if not self._template:
            address = self._database("")
            zygote.run(Life("make", "plain", address, str(folder)))
            self._template = address.partition("?")[0].rpartition("/")[2]
        return self._database(f" TEMPLATE {self._template}")

    def drop(self, address: str) -> None:
        """Make room."""
        name = address.partition("?")[0].rpartition("/")[2]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def wait_until_settled(self, seconds: float) -> None:
        """Until it has been up for so long: before that, nobody on it counts as dead."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            up = connection.execute("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8").fetchall()
        time.sleep(max(0.0, seconds - up[0][0]))

    def kill(self) -> None:
        """The first process; `restart` waits for the others."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).kill()

    def restart(self) -> None:
        """Wait until all of it is dead, and start it on what it left."""
        until = time.monotonic() + DYING
        while any(True for _ in self._processes()):
            if time.monotonic() > until:
                raise TimeoutError("The server's processes do not end.")
            time.sleep(0.01)
        for file in (self._folder / "postmaster.pid", *self._folder.glob(".s.PGSQL.*.lock")):
            file.unlink(missing_ok=True)  # a process that nobody has buried yet would pass for a server
        self._server.ensure_postgres_running()

    def _processes(self) -> Iterator[psutil.Process]:
        """They all work in the folder of their data."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                lives = process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE
                if lives and process.cwd() == str(self._folder.resolve()):
                    yield process

    def _database(self, more: str) -> str:
        name = f"crash_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}{more}")
        return str(self._server.get_uri(database=name))

    def _execute(self, sql: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(sql)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _one_at_a_time:
            self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
