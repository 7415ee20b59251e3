"""Jobs: what SQLite is asked to do, and groups of writes that share a transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from surehand.store.database import Row, Statement, StoreUnavailable, Unstorable, check_expected
from surehand.store.sqlite_dialect import PATIENCE, execute, execute_each, light, rows_of, silent

Work: TypeAlias = Callable[[sqlite3.Connection], Any]
LIGHT = 64_000
"""Characters and bytes that a write may have to be carried out on the loop; what is larger the writer does itself."""
FEW = 4
"""Writes up to which it does not pay to look whether they are alike."""


class Job(ABC):
    """Something to do, what came of it, and whoever waits for that."""

    result: Any = None
    error: Exception | None = None
    told = False
    light = False
    """Whether it is a write that is done in no time: rows are put in or changed, and few bytes at that."""
    future: asyncio.Future[None] | None = None

    @abstractmethod
    def carry_out(self, connection: sqlite3.Connection) -> Any:
        """Do it; what came of it."""

    def attempt(self, connection: sqlite3.Connection) -> None:
        try:
            self.result = self.carry_out(connection)
        except sqlite3.IntegrityError as error:
            self.error = Unstorable(str(error))
        except sqlite3.Error as error:
            self.error = StoreUnavailable(f"{error}.")
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            self.error = error

    def again(self) -> None:
        """As if it had not been tried."""
        self.result, self.error = None, None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Errand(Job):
    """Anything but a write."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def carry_out(self, connection: sqlite3.Connection) -> Any:
        return self.work(connection)


class Write(Job):
    """Statements that are kept together or not at all."""

    touched = False
    """Whether it has changed something that would have to be undone."""

    def __init__(self, statements: Sequence[Statement], size: int) -> None:
        self.statements = statements
        self.shape = tuple([statement.sql for statement in statements])
        self.light = size <= LIGHT and light(self.shape)

    def carry_out(self, connection: sqlite3.Connection) -> list[list[Row]]:
        results: list[list[Row]] = []
        for statement in self.statements:
            # Where this raises it has changed nothing: a single statement is atomic.
            cursor = execute(connection, statement.sql, statement.params)
            rows: list[Row] = []
            count = cursor.rowcount
            if cursor.description is not None:
                rows = self._returned(cursor)
                count = len(rows)
            if count:
                self.touched = True
            if statement.expect is not None:
                check_expected(statement, count)
            results.append(rows)
        return results

    def _returned(self, cursor: sqlite3.Cursor) -> list[Row]:
        # By now all is changed, and yet a row may turn out to be unreadable.
        before, self.touched = self.touched, True
        rows = rows_of(cursor)
        self.touched = before
        return rows

    def again(self) -> None:
        super().again()
        self.touched = False


def commit(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    """One transaction for all; one that fails takes nobody along."""
    try:
        _begin(connection)
        if not carry_out(connection, writes):
            connection.execute("ROLLBACK")
            _begin(connection)
            _each_by_itself(connection, writes)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - a writer that died would leave every caller waiting
        _undo(connection, writes, error)


def keep(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    """Commit what was carried out already."""
    try:
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - as above
        _undo(connection, writes, error)


def _undo(connection: sqlite3.Connection, writes: Sequence[Write], error: Exception) -> None:
    with suppress(sqlite3.Error):
        connection.execute("ROLLBACK")
    for write in writes:
        write.error = write.error or StoreUnavailable(f"The write was not kept: {str(error).rstrip('.')}.")


def _begin(connection: sqlite3.Connection) -> None:
    """Another process may be writing: it is waited for here, where nothing else waits."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.002)


def carry_out_together(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    """Those that do the same, each about another call, in bulk; nobody can tell in which order they are done."""
    about = {write.statements[0].params.get("call_id") for write in writes if write.statements}
    if len(writes) < FEW or len(about) < len(writes):
        return carry_out(connection, writes)
    shapes: dict[tuple[str, ...], list[Write]] = {}
    for write in writes:
        shapes.setdefault(write.shape, []).append(write)
    return all(
        in_bulk(connection, group) if len(group) >= FEW and silent(shape) else carry_out(connection, group)
        for shape, group in shapes.items()
    )


def in_bulk(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    """Statement by statement instead of write by write: half of what a small statement costs is to ask for it."""
    shape = writes[0].shape
    try:
        for place, sql in enumerate(shape):
            rows = [write.statements[place].params for write in writes]
            if execute_each(connection, sql, rows) != len(writes):  # somebody's row is not there or not as expected
                return False
    except sqlite3.Error:  # whose it was shows when each is done by itself
        return False
    nothing: list[list[Row]] = [[] for _ in shape]
    for write in writes:
        write.result = nothing
    return True


def carry_out(connection: sqlite3.Connection, writes: Sequence[Write]) -> bool:
    """Hardly a write fails after it has changed something: do without savepoints, and say so if one was missing."""
    for write in writes:
        write.attempt(connection)
        if write.error is not None and (write.touched or not connection.in_transaction):
            return False
    return True


def _each_by_itself(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    for write in writes:
        write.again()
        connection.execute("SAVEPOINT write")
        write.attempt(connection)
        if not connection.in_transaction:  # the disk is full or broken: SQLite has undone the whole group
            raise write.error or StoreUnavailable("SQLite has undone the transaction.")
        if write.error is not None:
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
