"""Executors of SQLite jobs: threads for a file, the caller itself for a database in memory.

A commit waits for the disk, so all writes that were requested in the meantime are committed as one group, by the writer
thread. A handler must not keep the write lock of the file by keeping the GIL, so none runs while a transaction is open:

- Small groups, and all groups of a program with other threads, such as those of sync handlers, are one SQL statement
  (`single_step.py`). The writer thread needs the GIL only before and after it.
- Else the event loop's thread executes the statements of small writes, in bulk, and returns to the loop when the writer
  thread is committing them, which needs no GIL.
- What fits neither way (large writes, and beside other threads also writes that return rows) is executed statement by
  statement, with the GIL taken again for each.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias, cast

from surehand.core.clock import wake
from surehand.store.database import Row, StoreUnavailable
from surehand.store.sqlite.dialect import BUSY_TIMEOUT_SECONDS, changes_tables
from surehand.store.sqlite.file_identity import StoreFiles
from surehand.store.sqlite.group_commit import (
    MIN_BULK_WRITES,
    ConnectionFunction,
    FunctionJob,
    SqliteJob,
    WriteJob,
    commit_executed,
    execute_and_commit,
    execute_group,
    fail_writes,
    is_locked_error,
)
from surehand.store.sqlite.single_step import SingleStepWriter

Connect: TypeAlias = Callable[[], sqlite3.Connection]

MAX_WRITES_PER_GROUP = 128
"""Writes that the event loop executes in one group."""
READER_THREADS = 2
LOCK_POLL_SECONDS = 0.002
"""Pause between two attempts to get the write lock from another process."""
HANDOVER_TIMEOUT_SECONDS = 1.0
log = logging.getLogger("surehand")


class InlineExecutor:
    """Runs every job at once in the caller: for a database in memory, where no commit waits for a disk."""

    def __init__(self, connect: Connect) -> None:
        self._connection = connect()
        self._lock = threading.Lock()
        self.commit_count = 0

    async def write(self, write: WriteJob) -> list[list[Row]]:
        with self._lock:
            execute_and_commit(self._connection, [write])
            self.commit_count += 1
        return write.get_result()  # type: ignore[no-any-return]

    async def run_exclusively(self, function: ConnectionFunction) -> Any:
        job = FunctionJob(function)
        with self._lock:
            job.run(self._connection)
        return job.get_result()

    read = quick_read = run_exclusively

    async def data_version(self) -> int:
        return self.commit_count

    async def close(self) -> None:
        with self._lock:
            self._connection.close()


class _ExecutedGroup(list[SqliteJob]):
    """Writes whose statements were executed and only have to be committed."""


class ThreadedExecutor:
    """One writer thread and a few reader threads, each with its own connection."""

    def __init__(self, connect: Connect, path: str, now: Callable[[], float]) -> None:
        self._connect = connect
        self._now = now
        self._files = StoreFiles(path)
        self._write_queue: queue.SimpleQueue[list[SqliteJob] | None] = queue.SimpleQueue()
        self._read_queue: queue.SimpleQueue[SqliteJob | None] = queue.SimpleQueue()
        self._queued_jobs: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
        self._threads: list[threading.Thread] = []
        self._home_loop: asyncio.AbstractEventLoop | None = None
        self._writer_connection: sqlite3.Connection | None = None
        self._single_step: SingleStepWriter | None = None
        self._loop_connection: sqlite3.Connection | None = None
        """The event loop's own connection, for `quick_read`. It never waits for a lock."""
        self._handover_lock = threading.Lock()
        """Held while a group is submitted, and while the event loop uses the writer's connection."""
        self._commit_start_signal = threading.Lock()
        """A lock as a signal: the writer releases it when it begins to commit what the event loop has executed."""
        self._commit_start_signal.acquire()
        self._groups_at_writer = 0
        """Groups that were submitted to the writer and are not finished."""
        self._other_process_holds_lock = False
        """Whether the writer waits for another process that holds the write lock."""
        self.commit_count = 0
        self._is_closed = False

    async def open(self) -> None:
        """Start the threads; raises `StoreUnavailable` if the file cannot be opened."""
        self._start_thread(self._run_writer)
        try:
            # In the writer thread: opening a connection waits while another process holds an exclusive lock.
            self._loop_connection = await self.run_exclusively(self._open_loop_connection)
        except BaseException:
            await self.close()
            raise
        self._home_loop = asyncio.get_running_loop()
        for _ in range(READER_THREADS):
            self._start_thread(self._run_reader)

    def _open_loop_connection(self, writer_connection: sqlite3.Connection) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA busy_timeout=0")
        writer_connection.execute("SELECT 1 FROM sqlite_master").fetchall()  # opens the write-ahead log
        self._files.remember()
        return connection

    def _start_thread(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="surehand store", daemon=True)
        self._threads.append(thread)
        thread.start()

    async def write(self, job: SqliteJob) -> Any:
        """Wait for a job even if the caller is cancelled: only then is it known whether the write was committed.

        While another process holds the write lock, a cancelled write is withdrawn instead, and never executed.
        """
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise StoreUnavailable("The store is closed.")
        self._enqueue(loop, job)
        cancelled: asyncio.CancelledError | None = None
        while not job.is_delivered:
            # A new future each time: a cancellation cancels the one that was awaited, and the job still needs one.
            job.future = loop.create_future()
            try:
                await job.future
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
                job.is_cancelled = True
                if self._other_process_holds_lock and job in self._queued_jobs.get(loop, ()):
                    self._queued_jobs[loop].remove(job)
                    break
        if cancelled is not None:
            raise cancelled
        return job.get_result()

    def run_exclusively(self, function: ConnectionFunction) -> Coroutine[Any, Any, Any]:
        """Run a function on the writer's connection, outside of any transaction."""
        return self.write(FunctionJob(function))

    async def read(self, function: ConnectionFunction) -> Any:
        job = FunctionJob(function)
        job.future = asyncio.get_running_loop().create_future()
        self._read_queue.put(job)
        await job.future
        return job.get_result()

    async def quick_read(self, function: ConnectionFunction) -> Any:
        if asyncio.get_running_loop() is not self._home_loop:
            return await self.read(function)
        job = FunctionJob(function)
        assert self._loop_connection is not None
        self._files.check()
        job.run(self._loop_connection)
        if isinstance(job.error, StoreUnavailable) and is_locked_error(job.error):
            return await self.read(function)  # a reader thread can wait for the lock
        return job.get_result()

    async def data_version(self) -> int:
        """Return a number that changes whenever this or another process has written."""
        [(number,)] = await self.quick_read(lambda connection: connection.execute("PRAGMA data_version").fetchall())
        return int(number)

    def _enqueue(self, loop: asyncio.AbstractEventLoop, job: SqliteJob) -> None:
        """Collect the jobs of one iteration of the event loop into one group."""
        jobs = self._queued_jobs.get(loop)
        if jobs is None:
            self._queued_jobs[loop] = [job]
            loop.call_soon(self._submit_queued, loop)
        else:
            jobs.append(job)

    def _submit_queued(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._queued_jobs:
            return
        with self._handover_lock:
            if loop is not self._home_loop:
                self._submit_to_writer(self._queued_jobs.pop(loop))
            elif not self._groups_at_writer:  # else the writer submits when it has finished, and the group has grown
                jobs = self._queued_jobs.pop(loop)
                group = jobs[:MAX_WRITES_PER_GROUP]
                rest = jobs[MAX_WRITES_PER_GROUP:]
                if rest:
                    self._queued_jobs[loop] = rest
                self._submit_group(group)

    def _submit_group(self, group: list[SqliteJob]) -> None:
        if self._fail_if_files_changed(group):
            _resolve_futures(group)
            return
        prefers_single_step = len(group) < MIN_BULK_WRITES or self._has_other_threads()
        if prefers_single_step and all([job.fits_in_single_step for job in group]):  # noqa: C419 - faster
            self._submit_to_writer(group)
            return
        if not self._try_execute(group):
            self._submit_to_writer(group)
            return
        self._submit_to_writer(_ExecutedGroup(group))
        # The transaction is open. Return to the event loop only when the writer commits it with the GIL released: a
        # handler that the loop runs next could keep the GIL, and with it the write lock, for as long as it likes.
        self._commit_start_signal.acquire(timeout=HANDOVER_TIMEOUT_SECONDS)

    def _has_other_threads(self) -> bool:
        """Whether another thread, such as a handler's, could hold the GIL while this one executes statements."""
        return threading.active_count() > 1 + len(self._threads)

    def _submit_to_writer(self, jobs: list[SqliteJob]) -> None:
        self._groups_at_writer += 1
        self._write_queue.put(jobs)

    def _try_execute(self, group: Sequence[SqliteJob]) -> bool:
        """Execute the statements of a group of small writes here; returns whether they only have to be committed."""
        connection = self._writer_connection
        if connection is None or not all([job.is_small for job in group]):  # noqa: C419 - faster
            return False
        try:
            # IMMEDIATE takes the write lock now: a deferred transaction could fail in the middle of the group.
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:  # another process is writing: the writer thread waits for it, or reports the error
            return False
        try:
            if execute_group(connection, cast("Sequence[WriteJob]", group)):
                return True
        except Exception:  # the writer thread runs them again and finds the one that failed
            log.exception("A group of writes failed; it is executed again one by one")
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        for job in group:
            job.reset()
        return False

    def _run_writer(self) -> None:
        try:
            connection = self._writer_connection = self._connect()
            # The event loop uses this connection too and must not block: `_commit_run` waits instead.
            connection.execute("PRAGMA busy_timeout=0")
            self._single_step = SingleStepWriter(connection, self._now)
        except StoreUnavailable as error:
            self._fail_all(error)
            return
        while (group := self._write_queue.get()) is not None:
            self._run_group(connection, group)
            if self._is_closed:  # checked here: closing the last connection deletes the write-ahead log
                self._fail_if_files_changed(group)
            with self._handover_lock:
                self._groups_at_writer -= 1
            self._deliver_results(group)
            del group  # else it would be freed only when the next group has arrived, and delay that one
            if self._home_loop in self._queued_jobs:  # jobs have been queued in the meantime
                self._schedule_next_group()
        connection.close()

    def _deliver_results(self, group: list[SqliteJob]) -> None:
        home_loop = self._home_loop
        if isinstance(group, _ExecutedGroup) and home_loop is not None:  # all its jobs came from that loop
            with suppress(RuntimeError):  # the loop is closed, so no caller waits
                home_loop.call_soon_threadsafe(self._acknowledge, group)
        else:
            _wake_loops(group, self._acknowledge)

    def _acknowledge(self, group: Sequence[SqliteJob]) -> None:
        """Give callers their results, on their event loop; none for writes into a file that others do not see."""
        # Not in the writer thread, which would have to take the GIL back from a busy event loop after each `stat`.
        if not self._is_closed:
            self._fail_if_files_changed(group)
        _resolve_futures(group)

    def _fail_if_files_changed(self, group: Sequence[SqliteJob]) -> bool:
        try:
            self._files.check()
        except StoreUnavailable as error:
            for job in group:
                job.error = job.error or StoreUnavailable(str(error))
            return True
        return False

    def _run_group(self, connection: sqlite3.Connection, group: list[SqliteJob]) -> None:
        writes = [job for job in group if isinstance(job, WriteJob)]
        if writes:
            if isinstance(group, _ExecutedGroup):
                self._commit_start_signal.release()
                commit_executed(connection, writes)
            else:
                # In runs that are alike, in order: one write that needs several statements must not make all others
                # wait for the GIL with the lock held.
                for _, run in groupby(writes, key=attrgetter("fits_in_single_step")):
                    self._commit_run(connection, list(run))
            self.commit_count += 1
        for job in group:
            if not isinstance(job, WriteJob):
                job.run(connection)

    def _commit_run(self, connection: sqlite3.Connection, writes: list[WriteJob]) -> None:
        """Execute and commit writes, and wait here for other processes that write: this is the writer thread."""
        deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
        try:
            while not self._try_commit(connection, writes):
                if time.monotonic() > deadline:
                    raise StoreUnavailable(f"another process has locked the file for {BUSY_TIMEOUT_SECONDS:g} seconds")
                self._other_process_holds_lock = True
                time.sleep(LOCK_POLL_SECONDS)
                writes = self._withdraw_cancelled(writes)
        except Exception as error:  # noqa: BLE001 - a dead writer thread would leave every caller waiting
            fail_writes(connection, writes, error)
        finally:
            self._other_process_holds_lock = False

    def _try_commit(self, connection: sqlite3.Connection, writes: list[WriteJob]) -> bool:
        """Execute and commit a group once; returns False if another process holds the write lock."""
        if not writes:
            return True
        try:
            if not self._commit_in_single_step(writes):
                if self._single_step is not None and any(changes_tables(write.sql_texts) for write in writes):
                    self._single_step.drop_triggers()
                execute_and_commit(connection, writes)
        except sqlite3.OperationalError as error:
            if not is_locked_error(error):
                raise
            return False
        return True

    def _commit_in_single_step(self, writes: list[WriteJob]) -> bool:
        """Commit a group in one step; returns False if that is not possible, and the writes have to be told apart."""
        if self._single_step is None or not all([write.fits_in_single_step for write in writes]):  # noqa: C419 - faster
            return False
        steps = self._single_step.encode([write.statements for write in writes])
        if steps is None:
            return False
        try:
            self._single_step.execute(steps)
        except sqlite3.Error as error:
            if is_locked_error(error):
                raise
            return False
        for write in writes:
            write.result = [[] for _ in write.statements]
        return True

    def _withdraw_cancelled(self, writes: list[WriteJob]) -> list[WriteJob]:
        """Let cancelled callers return now: their writes have changed nothing yet."""
        withdrawn = [write for write in writes if write.is_cancelled]
        if withdrawn:
            _wake_loops(withdrawn)
        return [write for write in writes if not write.is_cancelled]

    def _schedule_next_group(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            if self._home_loop is not None:
                self._home_loop.call_soon_threadsafe(self._submit_after_callers, self._home_loop)

    def _submit_after_callers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Submit after the callers of the last group have run: their next writes join this group."""
        loop.call_soon(self._submit_queued, loop)

    def _fail_all(self, error: StoreUnavailable) -> None:
        while (group := self._write_queue.get()) is not None:
            for job in group:
                job.error = StoreUnavailable(str(error))
            _wake_loops(group)

    def _run_reader(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._read_queue.get()) is not None:
            try:
                self._files.check()
                connection = connection or self._connect()
            except StoreUnavailable as error:  # the next job tries again
                job.error = error
            else:
                job.run(connection)
            _wake_loops([job])
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        threads, self._threads = self._threads, []
        with self._handover_lock:
            for loop in list(self._queued_jobs):
                self._submit_to_writer(self._queued_jobs.pop(loop))
            self._home_loop = None
            self._is_closed = True
        if self._loop_connection is not None:
            self._loop_connection.close()
        for _ in threads[1:]:
            self._read_queue.put(None)
        self._write_queue.put(None)
        await _join_threads(threads)


async def _join_threads(threads: Sequence[threading.Thread]) -> None:
    """Wait until threads have ended; the writer still needs the event loop meanwhile."""
    # Not with `asyncio.to_thread`: its thread would stay, and `_has_other_threads` would be true ever after.
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def join_threads() -> None:
        for thread in threads:
            thread.join()
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            loop.call_soon_threadsafe(wake, ended)

    threading.Thread(target=join_threads, name="surehand store closing", daemon=True).start()
    await ended


def _wake_loops(jobs: Sequence[SqliteJob], callback: Callable[[Sequence[SqliteJob]], None] | None = None) -> None:
    """Wake each event loop once, however many of its jobs are finished."""
    loops: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, finished in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(callback or _resolve_futures, finished)


def _resolve_futures(jobs: Sequence[SqliteJob]) -> None:
    for job in jobs:
        job.is_delivered = True
        future = job.future
        if future is not None and not future.done():
            future.set_result(None)
