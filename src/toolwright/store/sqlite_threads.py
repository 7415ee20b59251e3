"""Who carries out what SQLite is asked: a thread that commits many callers' writes at once, or the caller itself."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from toolwright.store.database import Row, Statement, StoreUnavailable, Unstorable, check_expected
from toolwright.store.sqlite_dialect import execute, rows_of

Connect: TypeAlias = Callable[[], sqlite3.Connection]
Work: TypeAlias = Callable[[sqlite3.Connection], Any]

MOST_TOGETHER = 512
"""Writes in one commit. While one commit reaches the disk the next callers gather, so the number finds itself."""
READERS = 2


class _Job:
    """Something to do, what came of it, and whoever waits for that."""

    result: Any = None
    error: Exception | None = None
    told = False
    future: asyncio.Future[None] | None = None

    def carry_out(self, connection: sqlite3.Connection) -> Any:
        raise NotImplementedError

    def attempt(self, connection: sqlite3.Connection) -> None:
        try:
            self.result = self.carry_out(connection)
        except sqlite3.IntegrityError as error:
            self.error = Unstorable(str(error))
        except sqlite3.Error as error:
            self.error = StoreUnavailable(f"{error}.")
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            self.error = error

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result

    def tell(self) -> None:
        self.told = True
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class _Errand(_Job):
    """Anything but a write."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def carry_out(self, connection: sqlite3.Connection) -> Any:
        return self.work(connection)


class _Write(_Job):
    """Statements that are kept together or not at all."""

    touched = False
    """Whether it has changed something that would have to be undone."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements

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
        self.result, self.error, self.touched = None, None, False


class Inline:
    """The caller carries out everything at once: for a database in memory, where there is no disk to wait for."""

    def __init__(self, connect: Connect) -> None:
        self._connection = connect()
        self._lock = threading.Lock()
        self.commits = 0

    async def write(self, statements: Sequence[Statement]) -> list[list[Row]]:
        write = _Write(statements)
        with self._lock:
            commit(self._connection, [write])
            self.commits += 1
        return write.outcome()  # type: ignore[no-any-return]

    async def read(self, work: Work) -> Any:
        return await self.alone(work)

    async def alone(self, work: Work) -> Any:
        job = _Errand(work)
        with self._lock:
            job.attempt(self._connection)
        return job.outcome()

    async def close(self) -> None:
        with self._lock:
            self._connection.close()


class Threads:
    """One thread that writes and a few that read, each with a connection of its own."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._writes: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._turns: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._threads: list[threading.Thread] = []
        self.commits = 0

    async def open(self) -> None:
        """Start the threads; raises where the file cannot be opened."""
        self._start(self._write_on)
        try:
            await self.alone(lambda connection: None)
        except BaseException:
            await self.close()
            raise
        for _ in range(READERS):
            self._start(self._read_on)

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="toolwright store", daemon=True)
        self._threads.append(thread)
        thread.start()

    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        return self._decided(_Write(statements))

    def alone(self, work: Work) -> Coroutine[Any, Any, Any]:
        """Something that only the writer may do, outside of any transaction."""
        return self._decided(_Errand(work))

    async def read(self, work: Work) -> Any:
        job = _Errand(work)
        job.future = asyncio.get_running_loop().create_future()
        self._reads.put(job)
        await job.future
        return job.outcome()

    async def _decided(self, job: _Job) -> Any:
        """However often the caller is cancelled, it goes on only when it is known what became of its write."""
        loop = asyncio.get_running_loop()
        self._enqueue(loop, job)
        cancelled: asyncio.CancelledError | None = None
        while not job.told:
            job.future = loop.create_future()
            try:
                await job.future
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is not None:
            raise cancelled
        return job.outcome()

    def _enqueue(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        # What is asked within one turn of the loop goes to the writer as one: a writer that began with the first would
        # contend with the loop for the interpreter, and commit more often.
        turn = self._turns.get(loop)
        if turn is None:
            self._turns[loop] = [job]
            loop.call_soon(self._hand_over, loop)
        else:
            turn.append(job)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        if turn := self._turns.pop(loop, None):
            self._writes.put(turn)

    def _write_on(self) -> None:
        try:
            connection = self._connect()
        except StoreUnavailable as error:
            self._refuse(error)
            return
        while group := _gather(self._writes):
            writes = [job for job in group if isinstance(job, _Write)]
            if writes:
                commit(connection, writes)
                self.commits += 1
            for job in group:
                if not isinstance(job, _Write):
                    job.attempt(connection)
            _tell(group)
        connection.close()

    def _refuse(self, error: StoreUnavailable) -> None:
        while group := _gather(self._writes):
            for job in group:
                job.error = StoreUnavailable(str(error))
            _tell(group)

    def _read_on(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._reads.get()) is not None:
            try:
                connection = connection or self._connect()
            except StoreUnavailable as error:  # for now: the next one tries again
                job.error = error
            else:
                job.attempt(connection)
            _tell([job])
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        threads, self._threads = self._threads, []
        for loop in list(self._turns):
            self._hand_over(loop)
        for _ in threads[1:]:
            self._reads.put(None)
        self._writes.put(None)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def commit(connection: sqlite3.Connection, writes: Sequence[_Write]) -> None:
    """One transaction for all; one that fails takes nobody along."""
    try:
        if not _together(connection, writes):
            _each_by_itself(connection, writes)
    except Exception as error:  # noqa: BLE001 - a writer that died would leave every caller waiting
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        for write in writes:
            write.error = write.error or StoreUnavailable(f"The write was not kept: {str(error).rstrip('.')}.")


def _together(connection: sqlite3.Connection, writes: Sequence[_Write]) -> bool:
    """Hardly a write fails after it has changed something: do without savepoints, and say so if one was missing."""
    connection.execute("BEGIN IMMEDIATE")
    for write in writes:
        _attempt(write, connection)
        if write.error is not None and write.touched:
            connection.execute("ROLLBACK")
            return False
    connection.execute("COMMIT")
    return True


def _each_by_itself(connection: sqlite3.Connection, writes: Sequence[_Write]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for write in writes:
        write.again()
        connection.execute("SAVEPOINT write")
        _attempt(write, connection)
        if write.error is not None:
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
    connection.execute("COMMIT")


def _attempt(write: _Write, connection: sqlite3.Connection) -> None:
    write.attempt(connection)
    if not connection.in_transaction:  # the disk is full or broken: SQLite has undone the whole group
        raise write.error or StoreUnavailable("SQLite has undone the transaction.")


def _gather(writes: queue.SimpleQueue[list[_Job] | None]) -> list[_Job]:
    """The next jobs and those that wait behind them; empty at the end."""
    group = writes.get()
    if group is None:
        return []
    while len(group) < MOST_TOGETHER:
        try:
            more = writes.get_nowait()
        except queue.Empty:
            break
        if more is None:
            writes.put(None)  # the end comes after this group
            break
        group.extend(more)
    return group


def _tell(jobs: Sequence[_Job]) -> None:
    """Wake each loop once, however many of its callers are told."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, mine in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_tell_all, mine)


def _tell_all(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.tell()
