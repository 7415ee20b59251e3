"""SQLite: one writer thread that commits many callers' writes at once, and readers beside it."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolwright.store.database import Row, Statement, StoreUnavailable, Unstorable, Value, check_expected, checked

NOW = "((julianday('now') - 2440587.5) * 86400.0)"
MOST_TOGETHER = 512
"""Writes in one commit. While one commit reaches the disk the next callers gather, so the number finds itself."""
READERS = 2
PATIENCE = 30.0
"""Seconds to wait for another process that holds the file."""


@dataclass(slots=True)
class _Job:
    """Something for a thread to do, and whoever waits for it."""

    work: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def tell(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


Jobs: TypeAlias = "queue.SimpleQueue[_Job | None]"


class Sqlite:
    """A file, or `:memory:`. Writes of concurrent callers share a commit; each keeps or loses its own."""

    def __init__(self, path: str, *, synchronous: str = "FULL") -> None:
        self._path, self._synchronous = path, synchronous
        self._writes: Jobs = queue.SimpleQueue()
        self._reads: Jobs = self._writes if path == ":memory:" else queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.commits = 0
        """How often the disk was asked to keep something."""

    async def open(self) -> Sqlite:
        """Start the threads; raises where the file cannot be opened."""
        _make_private(self._path)
        self._start(self._writer)
        try:
            await self._ask(self._writes, lambda connection: None)
        except BaseException:
            await self.close()
            raise
        if self._reads is not self._writes:
            for _ in range(READERS):
                self._start(self._reader)
        return self

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="toolwright store", daemon=True)
        self._threads.append(thread)
        thread.start()

    async def write(self, statements: Sequence[Statement]) -> list[list[Row]]:
        for statement in statements:
            checked(statement.params)
        return await self._ask(self._writes, lambda connection: _carry_out(connection, statements))  # type: ignore[no-any-return]

    async def read(self, sql: str, params: Mapping[str, Value] | None = None) -> list[Row]:
        values = checked(params or {})
        return await self._ask(self._reads, lambda connection: _rows(connection, sql, values))  # type: ignore[no-any-return]

    async def script(self, sql: str) -> None:
        """Several statements at once, for migrations."""
        statements = [Statement(part) for part in sql.split(";") if part.strip()]
        await self.write(statements)

    async def _ask(self, jobs: Jobs, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if not self._threads:
            raise StoreUnavailable("The store is closed.")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        jobs.put(job)
        return await job.future

    def _writer(self) -> None:
        connection = self._connect(self._writes)
        while connection is not None and (group := _gather(self._writes)):
            _commit(connection, group)
            self.commits += 1
        if connection is not None:
            connection.close()

    def _reader(self) -> None:
        connection = self._connect(self._reads)
        while connection is not None and (job := self._reads.get()) is not None:
            _attempt(job, connection)
            _tell([job])
        if connection is not None:
            connection.close()

    def _connect(self, jobs: Jobs) -> sqlite3.Connection | None:
        try:
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=PATIENCE, check_same_thread=False)
            connection.row_factory = sqlite3.Row
            _use_wal(connection)
            for pragma in (f"synchronous={self._synchronous}", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            while (job := jobs.get()) is not None:
                job.error = StoreUnavailable(f"{self._path} cannot be opened: {error}.")
                _tell([job])
            return None
        return connection

    async def close(self) -> None:
        threads, self._threads = self._threads, []
        for _ in threads[1:]:
            self._reads.put(None)
        self._writes.put(None)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def _make_private(path: str) -> None:
    """Others on the machine must not read what people approved."""
    if path != ":memory:":
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be opened: {error.strerror}.") from error


def _use_wal(connection: sqlite3.Connection) -> None:
    """The first to open a file changes its journal; that, SQLite's own patience does not wait for."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _gather(jobs: Jobs) -> list[_Job]:
    """The next job and all that wait behind it; empty at the end."""
    group: list[_Job] = []
    job = jobs.get()
    while job is not None:
        group.append(job)
        if len(group) == MOST_TOGETHER:
            return group
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return group
    if group:
        jobs.put(None)  # the end comes after this group
    return group


def _commit(connection: sqlite3.Connection, group: list[_Job]) -> None:
    """One transaction for all; a savepoint for each, so that one that fails takes nobody along."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in group:
            connection.execute("SAVEPOINT write")
            if not _attempt(job, connection):
                connection.execute("ROLLBACK TO write")
            connection.execute("RELEASE write")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        for job in group:
            job.error = job.error or StoreUnavailable(f"The write was not kept: {error}.")
    _tell(group)


def _attempt(job: _Job, connection: sqlite3.Connection) -> bool:
    try:
        job.result = job.work(connection)
    except sqlite3.IntegrityError as error:
        job.error = Unstorable(str(error))
    except sqlite3.Error as error:
        job.error = StoreUnavailable(f"{error}.")
        if connection.in_transaction is False and isinstance(error, sqlite3.OperationalError):
            raise  # the disk is full or broken: SQLite has undone the whole group
    except Exception as error:  # noqa: BLE001 - whoever asked is told
        job.error = error
    return job.error is None


def _tell(jobs: list[_Job]) -> None:
    """Wake each loop once, however many of its callers are told."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, mine in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_tell_all, mine)


def _tell_all(jobs: list[_Job]) -> None:
    for job in jobs:
        job.tell()


def _carry_out(connection: sqlite3.Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    results = []
    for statement in statements:
        cursor = connection.execute(_native(statement.sql), dict(statement.params))
        rows = [dict(row) for row in cursor.fetchall()] if cursor.description else []
        check_expected(statement, len(rows) if cursor.description else cursor.rowcount)
        results.append(rows)
    return results


def _rows(connection: sqlite3.Connection, sql: str, params: Mapping[str, Value]) -> list[Row]:
    return [dict(row) for row in connection.execute(_native(sql), dict(params)).fetchall()]


_WORDS = {
    "{now}": NOW,
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{blob}": "BLOB",
    "{real}": "REAL",
    "{tx}": "0",  # one writer: numbers are given in the order in which they are kept
    "{horizon}": "1",
    "{announce}": "SELECT 1 WHERE 1 = 0",  # others look from time to time
}


def _native(sql: str) -> str:
    if "{" in sql:
        for word, meaning in _WORDS.items():
            sql = sql.replace(word, meaning)
    return sql
