"""Who carries out what SQLite is asked: a thread that commits many callers' writes at once, or the caller itself.

A statement takes SQLite microseconds, and a commit waits for the disk. So the statements of small writes are carried
out on the event loop's own thread, all that were asked meanwhile together, and the writer thread commits them. Were
they carried out over there, each would cost a fight over the interpreter with a loop that is busy.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from toolwright.store.database import Row, Statement, StoreUnavailable, Unstorable, check_expected
from toolwright.store.sqlite_dialect import PATIENCE, execute, executemany, light, rows_of, silent

Connect: TypeAlias = Callable[[], sqlite3.Connection]
Work: TypeAlias = Callable[[sqlite3.Connection], Any]

LIGHT = 64_000
"""Characters and bytes that a write may have to be carried out on the loop; what is larger the writer does itself."""
FEW = 4
"""Writes up to which it does not pay to look whether they are alike."""
MOST_AT_ONCE = 128
"""Writes that the loop carries out in one go."""
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

    def again(self) -> None:
        """As if it had not been tried."""
        self.result, self.error = None, None

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

    def __init__(self, statements: Sequence[Statement], size: int) -> None:
        self.statements, self._size = statements, size

    @property
    def light(self) -> bool:
        """Whether it is done in no time: rows are put in or changed, and few bytes at that."""
        return self._size <= LIGHT and all([light(statement.sql) for statement in self.statements])  # noqa: C419 - faster

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


class Inline:
    """The caller carries out everything at once: for a database in memory, where there is no disk to wait for."""

    def __init__(self, connect: Connect) -> None:
        self._connection = connect()
        self._lock = threading.Lock()
        self.commits = 0

    async def write(self, statements: Sequence[Statement], size: int) -> list[list[Row]]:
        write = _Write(statements, size)
        with self._lock:
            commit(self._connection, [write])
            self.commits += 1
        return write.outcome()  # type: ignore[no-any-return]

    async def read(self, work: Work, at_once: bool = True) -> Any:
        return await self.alone(work)

    async def alone(self, work: Work) -> Any:
        job = _Errand(work)
        with self._lock:
            job.attempt(self._connection)
        return job.outcome()

    async def close(self) -> None:
        with self._lock:
            self._connection.close()


class _Commit(list[_Job]):
    """Writes whose statements are carried out, to be committed."""


class Threads:
    """One thread that writes and a few that read, each with a connection of its own."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._writes: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._turns: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._threads: list[threading.Thread] = []
        self._home: asyncio.AbstractEventLoop | None = None
        self._connection: sqlite3.Connection | None = None
        self._glance: sqlite3.Connection | None = None
        """The loop's own, for a quick look."""
        self._mutex = threading.Lock()
        """Held while something is handed to the writer, and while the loop uses the writer's connection."""
        self._handed = 0
        """What the writer was handed and has not finished."""
        self.commits = 0

    async def open(self) -> None:
        """Start the threads; raises where the file cannot be opened."""
        self._start(self._write_on)
        try:
            await self.alone(lambda connection: None)
        except BaseException:
            await self.close()
            raise
        self._home = asyncio.get_running_loop()
        for _ in range(READERS):
            self._start(self._read_on)

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="toolwright store", daemon=True)
        self._threads.append(thread)
        thread.start()

    def write(self, statements: Sequence[Statement], size: int) -> Coroutine[Any, Any, list[list[Row]]]:
        return self._decided(_Write(statements, size))

    def alone(self, work: Work) -> Coroutine[Any, Any, Any]:
        """Something that only the writer may do, outside of any transaction."""
        return self._decided(_Errand(work))

    async def read(self, work: Work, at_once: bool) -> Any:
        job, loop = _Errand(work), asyncio.get_running_loop()
        if at_once and loop is self._home:
            self._glance = self._glance or self._connect()
            job.attempt(self._glance)
            return job.outcome()
        job.future = loop.create_future()
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
        """What is asked within one turn of the loop is one group."""
        turn = self._turns.get(loop)
        if turn is None:
            self._turns[loop] = [job]
            loop.call_soon(self._hand_over, loop)
        else:
            turn.append(job)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._turns:
            return
        with self._mutex:
            if loop is not self._home:
                self._hand(self._turns.pop(loop))
            elif not self._handed:  # else it is called again when the writer has finished, and the group has grown
                turn = self._turns.pop(loop)
                group, rest = turn[:MOST_AT_ONCE], turn[MOST_AT_ONCE:]
                if rest:
                    self._turns[loop] = rest
                self._hand(_Commit(group) if self._carried_out(group) else group)

    def _hand(self, jobs: list[_Job]) -> None:
        self._handed += 1
        self._writes.put(jobs)

    def _carried_out(self, group: Sequence[_Job]) -> bool:
        """Whether the statements of the group are carried out, here and now, and only need to be committed."""
        connection = self._connection
        if connection is None or not all(isinstance(job, _Write) and job.light for job in group):
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # another process is writing: the writer waits for it
            return False
        writes = [job for job in group if isinstance(job, _Write)]
        if _in_bulk(connection, writes) if _alike(writes) else _carry_out(connection, writes):
            return True
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        for job in group:
            job.again()
        return False

    def _write_on(self) -> None:
        try:
            connection = self._connection = self._connect()
            connection.execute("PRAGMA busy_timeout=0")
        except StoreUnavailable as error:
            self._refuse(error)
            return
        while (group := self._writes.get()) is not None:
            self._finish(connection, group)
            with self._mutex:
                self._handed -= 1
            _tell(group)
            if self._home in self._turns:  # a group has gathered meanwhile
                self._again()
        connection.close()

    def _finish(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        writes = [job for job in group if isinstance(job, _Write)]
        if writes:
            keep(connection, writes) if isinstance(group, _Commit) else commit(connection, writes)
            self.commits += 1
        for job in group:
            if not isinstance(job, _Write):
                job.attempt(connection)

    def _again(self) -> None:
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            if self._home is not None:
                self._home.call_soon_threadsafe(self._after_the_told, self._home)

    def _after_the_told(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those who were just told go first: what they ask next comes with this group."""
        loop.call_soon(self._hand_over, loop)

    def _refuse(self, error: StoreUnavailable) -> None:
        while (group := self._writes.get()) is not None:
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
        with self._mutex:
            for loop in list(self._turns):
                self._hand(self._turns.pop(loop))
            self._home = None
        if self._glance is not None:
            self._glance.close()
        for _ in threads[1:]:
            self._reads.put(None)
        self._writes.put(None)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def commit(connection: sqlite3.Connection, writes: Sequence[_Write]) -> None:
    """One transaction for all; one that fails takes nobody along."""
    try:
        _begin(connection)
        if not _carry_out(connection, writes):
            connection.execute("ROLLBACK")
            _begin(connection)
            _each_by_itself(connection, writes)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - a writer that died would leave every caller waiting
        _undo(connection, writes, error)


def keep(connection: sqlite3.Connection, writes: Sequence[_Write]) -> None:
    """Commit what was carried out already."""
    try:
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - as above
        _undo(connection, writes, error)


def _undo(connection: sqlite3.Connection, writes: Sequence[_Write], error: Exception) -> None:
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


def _alike(writes: Sequence[_Write]) -> bool:
    """Whether the writes do the same, each about another call: then nobody can tell in which order they are done."""
    shape = [statement.sql for statement in writes[0].statements]
    if len(writes) < FEW or not all(map(silent, shape)):
        return False
    about = {write.statements[0].params.get("call_id") for write in writes}
    same = all([[statement.sql for statement in write.statements] == shape for write in writes])  # noqa: C419 - faster
    return same and None not in about and len(about) == len(writes)


def _in_bulk(connection: sqlite3.Connection, writes: Sequence[_Write]) -> bool:
    """Statement by statement instead of write by write: half of what a small statement costs is to ask for it."""
    shape = writes[0].statements
    try:
        for place, (sql, _, expect, _) in enumerate(shape):
            cursor = executemany(connection, sql, [write.statements[place].params for write in writes])
            if expect is not None and cursor.rowcount != expect * len(writes):
                return False
    except sqlite3.Error:  # whose it was shows when each is done by itself
        return False
    for write in writes:
        write.result = [[] for _ in shape]
    return True


def _carry_out(connection: sqlite3.Connection, writes: Sequence[_Write]) -> bool:
    """Hardly a write fails after it has changed something: do without savepoints, and say so if one was missing."""
    for write in writes:
        write.attempt(connection)
        if write.error is not None and (write.touched or not connection.in_transaction):
            return False
    return True


def _each_by_itself(connection: sqlite3.Connection, writes: Sequence[_Write]) -> None:
    for write in writes:
        write.again()
        connection.execute("SAVEPOINT write")
        write.attempt(connection)
        if not connection.in_transaction:  # the disk is full or broken: SQLite has undone the whole group
            raise write.error or StoreUnavailable("SQLite has undone the transaction.")
        if write.error is not None:
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")


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
