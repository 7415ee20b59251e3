"""SQLite: a file that the processes of one machine share, or a database in memory."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from surehand.store.database import Row, Statement, StoreUnavailable, Value, checked
from surehand.store.locks import OwnerFiles, OwnerSet
from surehand.store.sqlite_dialect import CLOCK, PATIENCE, execute, rows_of
from surehand.store.sqlite_jobs import Write
from surehand.store.sqlite_threads import Inline, Threads
from surehand.store.sqlite_watch import Watch

IN_MEMORY = ":memory:"
CACHED = 512
"""Statements that a connection keeps prepared."""


class Sqlite:
    """A file, or `:memory:`. Writes of concurrent callers share a commit; each keeps or loses its own."""

    def __init__(self, path: str, *, synchronous: str = "FULL", now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._connect = partial(_connect, path, synchronous, now)
        self._engine: Inline | Threads | None = None
        self._watch: Watch | None = None
        self._locks: OwnerFiles | OwnerSet = OwnerSet() if path == IN_MEMORY else OwnerFiles(path)

    async def open(self) -> Sqlite:
        """Start at once; raises where the file cannot be opened."""
        if self._path == IN_MEMORY:
            self._engine = Inline(self._connect)
            return self
        _make_private(self._path)
        threads = Threads(self._connect)
        await threads.open()
        self._engine = threads
        return self

    @property
    def commits(self) -> int:
        """How often the disk was asked to keep something."""
        return self._opened().commits

    # Not `async def`: it awaits nothing itself, and every durable call comes through here twice.
    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        size = 0
        for _, params, _, known in statements:
            size += checked(params) if known is None else known
        return (self._engine or self._opened()).write(Write(statements, size))

    async def read(self, sql: str, params: Mapping[str, Value] | None = None) -> list[Row]:
        values = params or {}
        checked(values)
        return await self._opened().read(partial(_rows, sql, values))  # type: ignore[no-any-return]

    async def glance(self, sql: str, params: Mapping[str, Value] | None = None) -> list[tuple[Any, ...]]:
        values = params or {}
        checked(values)
        return await self._opened().glance(partial(_tuples, sql, values))  # type: ignore[no-any-return]

    async def script(self, sql: str) -> None:
        """Several statements at once, for migrations."""
        await self.write([Statement(part) for part in sql.split(";") if part.strip()])

    async def hold(self, owner: str) -> None:
        self._opened()
        self._locks.hold(owner)

    async def let_go(self, owner: str) -> None:
        self._locks.let_go(owner)

    async def alive(self, owners: Collection[str]) -> set[str]:
        return self._locks.alive(owners)

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody announces between processes that share a file: look from time to time."""
        return lambda: None

    def on_write(self, callback: Callable[[], None]) -> Callable[[], None]:
        """A file does not tell who has written to it, but that somebody has."""
        self._watch = self._watch or Watch(self._version)
        return self._watch.add(callback)

    async def _version(self) -> int:
        return await self._opened().version()

    async def vacuum(self) -> None:
        await self._opened().alone(_vacuum)

    async def size(self) -> int:
        sql = "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()"
        [row] = await self.read(sql)
        return int(row["bytes"])

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        self._locks.close()

    def _opened(self) -> Inline | Threads:
        if self._engine is None:
            raise StoreUnavailable("The store is closed.")
        return self._engine


def _rows(sql: str, params: Mapping[str, Value], connection: sqlite3.Connection) -> list[Row]:
    return rows_of(execute(connection, sql, params))


def _tuples(sql: str, params: Mapping[str, Value], connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return execute(connection, sql, params).fetchall()


def _make_private(path: str) -> None:
    """Others on the machine must not read what people approved. The files beside it get the same mode from SQLite."""
    try:
        # Only a new file: closing one that is in use here gives up SQLite's locks on it, and then another process that
        # closes it takes itself for the last, and the log away that is still written here.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        _check(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error.strerror}.") from error


def _check(path: str) -> None:
    """What opening it would say."""
    wrong = {errno.EISDIR: os.path.isdir(path), errno.EACCES: not os.access(path, os.R_OK | os.W_OK)}
    if problem := next((number for number, found in wrong.items() if found), None):
        raise StoreUnavailable(f"{path} cannot be opened: {os.strerror(problem)}.")


def _connect(path: str, synchronous: str, now: Callable[[], float]) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            path, isolation_level=None, timeout=PATIENCE, check_same_thread=False, cached_statements=CACHED
        )
        connection.create_function(CLOCK, 0, now)
        # A new file takes this only before anything is written, and the journal's mode is written.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _use_wal(connection)
        for pragma in (f"synchronous={synchronous}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error}.") from error
    return connection


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


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # until then the file keeps its size
