"""Executors of SQLite jobs: threads for a file, the caller itself for a database in memory.

A statement takes microseconds, a commit waits for the disk. So the event loop's thread executes the statements of small
writes, all that were requested in the meantime as one group, and the writer thread commits the group. If the writer
executed the statements too, it would have to take the GIL from a busy event loop for each of them.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from surehand.store.database import Row, StoreUnavailable
from surehand.store.sqlite.group_commit import (
    ConnectionFunction,
    FunctionJob,
    SqliteJob,
    WriteJob,
    commit_executed,
    execute_and_commit,
    execute_group,
)

Connect: TypeAlias = Callable[[], sqlite3.Connection]

MAX_WRITES_PER_GROUP = 128
"""Writes that the event loop executes in one group."""
READER_THREADS = 2
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

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._write_queue: queue.SimpleQueue[list[SqliteJob] | None] = queue.SimpleQueue()
        self._read_queue: queue.SimpleQueue[SqliteJob | None] = queue.SimpleQueue()
        self._queued_jobs: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
        self._threads: list[threading.Thread] = []
        self._home_loop: asyncio.AbstractEventLoop | None = None
        self._writer_connection: sqlite3.Connection | None = None
        self._loop_connection: sqlite3.Connection | None = None
        """The event loop's own connection, for `quick_read`."""
        self._handover_lock = threading.Lock()
        """Held while a group is submitted, and while the event loop uses the writer's connection."""
        self._groups_at_writer = 0
        """Groups that were submitted to the writer and are not finished."""
        self.commit_count = 0
        self._is_closed = False

    async def open(self) -> None:
        """Start the threads; raises `StoreUnavailable` if the file cannot be opened."""
        self._start_thread(self._run_writer)
        try:
            await self.run_exclusively(lambda connection: None)
        except BaseException:
            await self.close()
            raise
        self._home_loop = asyncio.get_running_loop()
        for _ in range(READER_THREADS):
            self._start_thread(self._run_reader)

    def _start_thread(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="surehand store", daemon=True)
        self._threads.append(thread)
        thread.start()

    async def write(self, job: SqliteJob) -> Any:
        """Wait for a job even if the caller is cancelled: only then is it known whether the write was committed."""
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise StoreUnavailable("The store is closed.")
        self._enqueue(loop, job)
        cancelled: asyncio.CancelledError | None = None
        while not job.is_delivered:
            job.future = loop.create_future()
            try:
                await job.future
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
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
        self._loop_connection = self._loop_connection or self._connect()
        job.run(self._loop_connection)
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
                self._submit_to_writer(_ExecutedGroup(group) if self._try_execute(group) else group)

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
            # The event loop uses this connection too and must not block: `_begin_transaction` waits instead.
            connection.execute("PRAGMA busy_timeout=0")
        except StoreUnavailable as error:
            self._fail_all(error)
            return
        while (group := self._write_queue.get()) is not None:
            self._run_group(connection, group)
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
                home_loop.call_soon_threadsafe(_resolve_futures, group)
        else:
            _wake_loops(group)

    def _run_group(self, connection: sqlite3.Connection, group: list[SqliteJob]) -> None:
        writes = [job for job in group if isinstance(job, WriteJob)]
        if writes:
            commit = commit_executed if isinstance(group, _ExecutedGroup) else execute_and_commit
            commit(connection, writes)
            self.commit_count += 1
        for job in group:
            if not isinstance(job, WriteJob):
                job.run(connection)

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
                connection = connection or self._connect()
            except StoreUnavailable as error:  # the next job tries to connect again
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
        for thread in threads:
            await asyncio.to_thread(thread.join)


def _wake_loops(jobs: Sequence[SqliteJob]) -> None:
    """Wake each event loop once, however many of its jobs are finished."""
    loops: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, finished in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_resolve_futures, finished)


def _resolve_futures(jobs: Sequence[SqliteJob]) -> None:
    for job in jobs:
        job.is_delivered = True
        future = job.future
        if future is not None and not future.done():
            future.set_result(None)
