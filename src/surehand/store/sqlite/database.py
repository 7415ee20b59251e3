"""`SqliteDatabase`: a file that the processes of one machine share, or a database in memory.

`open_database` creates it. It owns the connections, the owner locks and the poller that notices writes of others.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from surehand.core.private_paths import PRIVATE_PATHS
from surehand.store.database import (
    Row,
    SqlValue,
    Statement,
    StoreError,
    StoreUnavailable,
    read_only_error,
    validate_params,
)
from surehand.store.sqlite.dialect import BUSY_TIMEOUT_SECONDS, CLOCK_FUNCTION, execute_statement, fetch_rows
from surehand.store.sqlite.executors import InlineExecutor, ThreadedExecutor
from surehand.store.sqlite.group_commit import WriteJob
from surehand.store.sqlite.owner_locks import FileOwnerLocks, InMemoryOwnerLocks
from surehand.store.sqlite.read_only_address import ReadOnlyAddress

log = logging.getLogger("surehand")
IN_MEMORY_ADDRESS = ":memory:"
CACHED_STATEMENTS = 512
"""Prepared statements that a connection caches."""
POLL_SECONDS = 0.02
"""Seconds between two polls of the data version; a poll takes a few microseconds."""


class ChangePoller:
    """Polls the version of a database while it has callbacks, and calls them after every change by any process."""

    def __init__(self, read_version: Callable[[], Awaitable[int]]) -> None:
        self._read_version = read_version
        self._callbacks: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def add_callback(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every write; returns a function that removes the callback."""
        self._callbacks.append(callback)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll(), name="surehand watch")

        def stop() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            if not self._callbacks and self._task is not None:
                self._task.cancel()
                self._task = None

        return stop

    async def _poll(self) -> None:
        last_version = -1
        while True:
            try:
                version = await self._read_version()
            except StoreError as error:
                log.warning("Changes of the store cannot be detected: %s", error)
                version = last_version
            if version != last_version:
                last_version = version
                for callback in list(self._callbacks):
                    callback()
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Stop polling."""
        self._callbacks.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


class SqliteDatabase:
    """A file, or `:memory:`. Writes of concurrent callers share a commit, but succeed or fail each by itself."""

    def __init__(
        self,
        path: str,
        *,
        synchronous: str = "FULL",
        now: Callable[[], float] = time.time,
        read_only: bool = False,
    ) -> None:
        # Absolute: readers connect later, and the program may change its working directory.
        self._path = path = path if path == IN_MEMORY_ADDRESS else os.path.abspath(path)
        self._now = now
        self.is_read_only = read_only
        self._read_only_address: ReadOnlyAddress | None = None
        PRIVATE_PATHS.add_store(path)
        self._connect = partial(_connect, path, synchronous, now)
        self._executor: InlineExecutor | ThreadedExecutor | None = None
        self._change_poller: ChangePoller | None = None
        self._owner_locks: FileOwnerLocks | InMemoryOwnerLocks = (
            InMemoryOwnerLocks() if path == IN_MEMORY_ADDRESS else FileOwnerLocks(path)
        )

    async def open(self) -> SqliteDatabase:
        """Open the connections; raises `StoreUnavailable` if the file cannot be opened."""
        if self._path == IN_MEMORY_ADDRESS:
            self._executor = InlineExecutor(self._connect)
            return self
        if self.is_read_only:
            self._read_only_address = await asyncio.to_thread(ReadOnlyAddress, self._path)
            self._connect = partial(_connect_read_only, self._path, self._read_only_address, self._now)
        else:
            _create_private_file(self._path)
        threads = ThreadedExecutor(self._connect, self._path, self._now)
        await threads.open()
        self._executor = threads
        return self

    @property
    def commit_count(self) -> int:
        """How many transactions were committed."""
        return self._require_open().commit_count

    # Not `async def`: it awaits nothing itself, and every durable call writes twice. This saves a coroutine each time.
    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        if self.is_read_only:
            raise read_only_error()
        size = 0
        for _, params, _, validated_size in statements:
            size += validate_params(params) if validated_size is None else validated_size
        return (self._executor or self._require_open()).write(WriteJob(statements, size))

    def write_without_limit(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        return self.write(statements)

    @property
    def is_stalled(self) -> bool:
        return False

    async def read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[Row]:
        values = params or {}
        validate_params(values)
        return await self._require_open().read(partial(_query_rows, sql, values))  # type: ignore[no-any-return]

    async def quick_read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[tuple[Any, ...]]:
        values = params or {}
        validate_params(values)
        return await self._require_open().quick_read(partial(_query_tuples, sql, values))  # type: ignore[no-any-return]

    async def run_script(self, sql: str) -> None:
        """Execute several statements, for migrations."""
        await self.write([Statement(part) for part in sql.split(";") if part.strip()])

    async def acquire_owner_lock(self, owner: str) -> None:
        self._require_open()
        self._owner_locks.acquire(owner)

    async def release_owner_lock(self, owner: str) -> None:
        self._owner_locks.release(owner)

    async def live_owners(self, owners: Collection[str]) -> set[str]:
        return self._owner_locks.live_owners(owners)

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: processes that share a file cannot notify each other, so callers also poll."""
        return lambda: None

    def on_write(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after any write: SQLite reveals that a file has changed, but not what."""
        self._change_poller = self._change_poller or ChangePoller(self._data_version)
        return self._change_poller.add_callback(callback)

    async def _data_version(self) -> int:
        # `PRAGMA data_version` changes when another connection has committed, in this process or in another one.
        return await self._require_open().data_version()

    async def vacuum(self) -> None:
        await self._require_open().run_exclusively(_vacuum)

    async def size_bytes(self) -> int:
        sql = "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()"
        [row] = await self.read(sql)
        return int(row["bytes"])

    async def close(self) -> None:
        if self._change_poller is not None:
            await self._change_poller.close()
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.close()
        self._owner_locks.close()
        if self._read_only_address is not None:
            self._read_only_address.close()

    def _require_open(self) -> InlineExecutor | ThreadedExecutor:
        if self._executor is None:
            raise StoreUnavailable("The store is closed.")
        return self._executor


def _query_rows(sql: str, params: Mapping[str, SqlValue], connection: sqlite3.Connection) -> list[Row]:
    return fetch_rows(execute_statement(connection, sql, params))


def _query_tuples(sql: str, params: Mapping[str, SqlValue], connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return execute_statement(connection, sql, params).fetchall()


def _create_private_file(path: str) -> None:
    """Create the file readable by its owner alone; SQLite gives the files beside it the same mode."""
    try:
        # Only a new file (O_EXCL): POSIX releases all locks of a process on a file when it closes any descriptor of it.
        # Closing an existing file here would release SQLite's locks, and another process that closes the database would
        # take itself for the last one and delete the write-ahead log that this process still uses.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        _check_access(path)
    except FileNotFoundError as error:
        folder = os.path.dirname(path)
        raise StoreUnavailable(
            f"{path} cannot be opened: there is no folder {folder}. Create it, or name another file."
        ) from error
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error.strerror}.") from error


def _check_access(path: str) -> None:
    """Raise the error that opening the existing file would raise."""
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} cannot be opened: {os.strerror(errno.EISDIR)}.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreUnavailable(f"{path} cannot be opened: {os.strerror(errno.EACCES)}.")


def _connect(path: str, synchronous: str, now: Callable[[], float]) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            path,
            isolation_level=None,  # else Python's `sqlite3` begins transactions by itself
            timeout=BUSY_TIMEOUT_SECONDS,
            check_same_thread=False,  # the writer's connection is used by two threads, one at a time
            cached_statements=CACHED_STATEMENTS,
        )
        connection.create_function(CLOCK_FUNCTION, 0, now)
        # Takes effect only before the first write to a new file, and setting the journal mode is a write.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _enable_wal(connection)
        # FULL: with a write-ahead log, NORMAL would lose the last commits in a power failure.
        for pragma in (f"synchronous={synchronous}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error}.") from error
    return connection


def _connect_read_only(path: str, address: ReadOnlyAddress, now: Callable[[], float]) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            address.uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False
        )
        connection.create_function(CLOCK_FUNCTION, 0, now)
        connection.execute("PRAGMA query_only=ON")
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error}.") from error
    return connection


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; retry while another process does so, which `busy_timeout` does not cover."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the checkpoint shrinks the file
