"""Jobs: what SQLite is asked to do, and groups of writes that share a transaction."""

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
    touches_few_rows,
)

ConnectionFunction: TypeAlias = Callable[[sqlite3.Connection], Any]
MAX_SMALL_WRITE_SIZE = 64_000
"""Characters and bytes that a write may have to be carried out on the loop; what is larger the writer does itself."""
MIN_BULK_WRITES = 4
"""Writes up to which it does not pay to look whether they are alike."""


class SqliteJob(ABC):
    """Something to do, what came of it, and whoever waits for that."""

    result: Any = None
    error: Exception | None = None
    is_delivered = False
    is_small = False
    """Whether it is a write that is done in no time: rows are put in or changed, and few bytes at that."""
    future: asyncio.Future[None] | None = None

    @abstractmethod
    def execute(self, connection: sqlite3.Connection) -> Any:
        """Do it; what came of it."""

    def run(self, connection: sqlite3.Connection) -> None:
        try:
            self.result = self.execute(connection)
        except sqlite3.IntegrityError as error:
            self.error = UnstorableValue(str(error))
        except sqlite3.Error as error:
            self.error = StoreUnavailable(f"{error}.")
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            self.error = error

    def reset(self) -> None:
        """As if it had not been tried."""
        self.result, self.error = None, None

    def get_result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class FunctionJob(SqliteJob):
    """Anything but a write."""

    def __init__(self, function: ConnectionFunction) -> None:
        self.function = function

    def execute(self, connection: sqlite3.Connection) -> Any:
        return self.function(connection)


class WriteJob(SqliteJob):
    """Statements that are kept together or not at all."""

    has_changes = False
    """Whether it has changed something that would have to be undone."""

    def __init__(self, statements: Sequence[Statement], size: int) -> None:
        self.statements = statements
        self.sql_texts = tuple([statement.sql for statement in statements])
        self.is_small = size <= MAX_SMALL_WRITE_SIZE and touches_few_rows(self.sql_texts)

    def execute(self, connection: sqlite3.Connection) -> list[list[Row]]:
        results: list[list[Row]] = []
        for statement in self.statements:
            # Where this raises it has changed nothing: a single statement is atomic.
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
        # By now all is changed, and yet a row may turn out to be unreadable.
        before, self.has_changes = self.has_changes, True
        rows = fetch_rows(cursor)
        self.has_changes = before
        return rows

    def reset(self) -> None:
        super().reset()
        self.has_changes = False


def execute_and_commit(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> None:
    """One transaction for all; one that fails takes nobody along."""
    try:
        _begin_transaction(connection)
        if not execute_without_savepoints(connection, writes):
            connection.execute("ROLLBACK")
            _begin_transaction(connection)
            _execute_with_savepoints(connection, writes)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - a writer that died would leave every caller waiting
        _roll_back(connection, writes, error)


def commit_executed(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> None:
    """Commit what was carried out already."""
    try:
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - as above
        _roll_back(connection, writes, error)


def _roll_back(connection: sqlite3.Connection, writes: Sequence[WriteJob], error: Exception) -> None:
    with suppress(sqlite3.Error):
        connection.execute("ROLLBACK")
    for write in writes:
        write.error = write.error or StoreUnavailable(f"The write was not kept: {str(error).rstrip('.')}.")


def _begin_transaction(connection: sqlite3.Connection) -> None:
    """Another process may be writing: it is waited for here, where nothing else waits."""
    until = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.002)


def execute_group(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Those that do the same, each about another call, in bulk; nobody can tell in which order they are done."""
    about = {write.statements[0].params.get("call_id") for write in writes if write.statements}
    if len(writes) < MIN_BULK_WRITES or len(about) < len(writes):
        return execute_without_savepoints(connection, writes)
    shapes: dict[tuple[str, ...], list[WriteJob]] = {}
    for write in writes:
        shapes.setdefault(write.sql_texts, []).append(write)
    return all(
        execute_in_bulk(connection, group)
        if len(group) >= MIN_BULK_WRITES and can_run_in_bulk(shape)
        else execute_without_savepoints(connection, group)
        for shape, group in shapes.items()
    )


def execute_in_bulk(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Statement by statement instead of write by write: half of what a small statement costs is to ask for it."""
    shape = writes[0].sql_texts
    try:
        for place, sql in enumerate(shape):
            rows = [write.statements[place].params for write in writes]
            if execute_many(connection, sql, rows) != len(writes):  # somebody's row is not there or not as expected
                return False
    except sqlite3.Error:  # whose it was shows when each is done by itself
        return False
    nothing: list[list[Row]] = [[] for _ in shape]
    for write in writes:
        write.result = nothing
    return True


def execute_without_savepoints(connection: sqlite3.Connection, writes: Sequence[WriteJob]) -> bool:
    """Hardly a write fails after it has changed something: do without savepoints, and say so if one was missing."""
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
        if not connection.in_transaction:  # the disk is full or broken: SQLite has undone the whole group
            raise write.error or StoreUnavailable("SQLite has undone the transaction.")
        if write.error is not None:
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
