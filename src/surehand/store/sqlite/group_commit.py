"""Group commit: the jobs of SQLite, and groups of writes that share one transaction.

The executors run these on a connection. A write that fails is rolled back alone; the others of its group are committed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from surehand.store.database import Row, Statement, StoreUnavailable, UnstorableValue, check_row_count
from surehand.store.sqlite.dialect import (
    BUSY_TIMEOUT_SECONDS,
    can_run_in_bulk,
    execute_many,
    execute_statement,
    fetch_rows,
    returns_no_rows,
    touches_few_rows,
)

ConnectionFunction: TypeAlias = Callable[[sqlite3.Connection], Any]
MAX_SMALL_WRITE_SIZE = 64_000
"""Characters and bytes up to which a write is executed on the event loop; the writer thread executes larger ones."""
MIN_BULK_WRITES = 4
"""From this number of equal writes on, executing them in bulk is faster."""


class SqliteJob(ABC):
    """Work for a connection, its result or error, and the future of the caller that waits for it."""

    result: Any = None
    error: Exception | None = None
    is_delivered = False
    """Whether the caller has been given the result."""
    is_small = False
    """Whether it is a write of few rows and bytes, which takes microseconds."""
    fits_in_single_step = False
    """Whether it is a small write of which no rows are read."""
    is_cancelled = False
    """Whether the caller was cancelled: the write is withdrawn if it has to wait for another process."""
    future: asyncio.Future[None] | None = None

    @abstractmethod
    def execute(self, connection: sqlite3.Connection) -> Any:
        """Do the work and return its result."""

    def run(self, connection: sqlite3.Connection) -> None:
        """Do the work and keep its result or error."""
        try:
            self.result = self.execute(connection)
        except sqlite3.IntegrityError as error:
            self.error = UnstorableValue(str(error))
        except sqlite3.Error as error:
            self.error = StoreUnavailable(f"{error}.")
        except Exception as error:  # noqa: BLE001 - raised again to the caller
            self.error = error

    def reset(self) -> None:
        """Forget the result, so that the job can run again."""
        self.result = None
        self.error = None

    def get_result(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


class FunctionJob(SqliteJob):
    """Any other use of the connection: a read, or a vacuum."""

    def __init__(self, function: ConnectionFunction) -> None:
        self.function = function

    def execute(self, connection: sqlite3.Connection) -> Any:
        return self.function(connection)


class WriteJob(SqliteJob):
    """Statements that are committed together or not at all."""

    has_changes = False
    """Whether it has changed rows that would have to be rolled back."""

    def __init__(self, statements: Sequence[Statement], size: int) -> None:
        self.statements = statements
        self.sql_texts = tuple([statement.sql for statement in statements])
        self.is_small = size <= MAX_SMALL_WRITE_SIZE and touches_few_rows(self.sql_texts)
        self.fits_in_single_step = size <= MAX_SMALL_WRITE_SIZE and returns_no_rows(self.sql_texts)

    def execute(self, connection: sqlite3.Connection) -> list[list[Row]]:
        results: list[list[Row]] = []
        for statement in self.statements:
            # If this raises, it has changed nothing: a single statement is atomic.
            cursor = execute_statement(connection, statement.sql, statement.params)
            rows: list[Row] = []
            count = cursor.rowcount
            if cursor.description is not None:
                rows = self._fetch_rows(cursor)
                count = len(rows)
            if count:
                self.has_changes = True
            if statement.expect is not None:
                check_row_count(statement, count)
            results.append(rows)
        return results

    def _fetch_rows(self, cursor: sqlite3.Cursor) -> list[Row]:
        # The statement has changed its rows by now, and reading a returned row may still fail.
        had_changes = self.has_changes
        self.has_changes = True
        rows = fetch_rows(cursor)
        self.has_changes = had_changes
        return rows

    def reset(self) -> None:
        super().reset()
        self.has_changes = False


def execute_and_commit(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> None:
    """Execute and commit writes in one transaction; one that fails does not affect the others.

    Raises only if another process holds the write lock; then nothing was executed.
    """
    try:
        # IMMEDIATE takes the write lock now: a deferred transaction takes it at its first write, within a group.
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        if is_locked_error(error):
            raise
        fail_writes(connection, writes, error)
        return
    try:
        if not execute_without_savepoints(connection, writes):
            connection.execute("ROLLBACK")
            _begin_again(connection)
            _execute_with_savepoints(connection, writes)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - a dead writer thread would leave every caller waiting
        fail_writes(connection, writes, error)


def commit_executed(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> None:
    """Commit writes that were already executed."""
    try:
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - as above
        fail_writes(connection, writes, error)


def fail_writes(connection: sqlite3.Connection, writes: Sequence[WriteJob], error: Exception) -> None:
    """Roll back, and give the error to every write that has none of its own."""
    with suppress(sqlite3.Error):
        connection.execute("ROLLBACK")
    for write in writes:
        write.error = write.error or StoreUnavailable(f"The write was not stored: {str(error).rstrip('.')}.")


def is_locked_error(error: Exception) -> bool:
    """Whether another process holds the lock that a statement needs."""
    # By its text ("database is locked"): our own StoreUnavailable carries no code of SQLite.
    return "locked" in str(error)


def _begin_again(connection: sqlite3.Connection) -> None:
    """Begin a transaction after a rollback: another process may have taken the lock in between."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not is_locked_error(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.002)


def execute_group(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Execute writes, equal ones in bulk; returns whether all succeeded without savepoints.

    Writes about different calls do not depend on each other, so their order may change.
    """
    call_ids = {write.statements[0].params.get("call_id") for write in writes if write.statements}
    if len(writes) < MIN_BULK_WRITES or len(call_ids) < len(writes):
        return execute_without_savepoints(connection, writes)
    groups: dict[tuple[str, ...], list[WriteJob]] = {}
    for write in writes:
        groups.setdefault(write.sql_texts, []).append(write)
    for sql_texts, group in groups.items():
        is_bulk = len(group) >= MIN_BULK_WRITES and can_run_in_bulk(sql_texts)
        execute = execute_in_bulk if is_bulk else execute_without_savepoints
        if not execute(connection, group):
            return False
    return True


def execute_in_bulk(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Execute equal writes statement by statement: half of the cost of a small statement is the call into SQLite."""
    sql_texts = writes[0].sql_texts
    try:
        for index, sql in enumerate(sql_texts):
            rows = [write.statements[index].params for write in writes]
            if execute_many(connection, sql, rows) != len(writes):  # a row is missing or not as expected
                return False
    except sqlite3.Error:  # executing them one by one shows which write it was
        return False
    no_rows: list[list[Row]] = [[] for _ in sql_texts]
    for write in writes:
        write.result = no_rows
    return True


def execute_without_savepoints(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Execute writes without savepoints, because few fail; returns False if one failed after it had changed rows."""
    for write in writes:
        write.run(connection)
        if write.error is not None and (write.has_changes or not connection.in_transaction):
            return False
    return True


def _execute_with_savepoints(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> None:
    for write in writes:
        write.reset()
        connection.execute("SAVEPOINT write")
        write.run(connection)
        if not connection.in_transaction:  # the disk is full or broken: SQLite rolled back the whole group
            raise write.error or StoreUnavailable("SQLite rolled back the transaction.")
        if write.error is not None:
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
