"""Who carries out what SQLite is asked: a thread that commits many callers' writes at once, or the caller itself.

A statement takes SQLite microseconds, and a commit waits for the disk. So the statements of small writes are carried
out on the event loop's own thread, all that were asked meanwhile together, and the writer thread commits them. Were
they carried out over there, each would cost a fight over the interpreter with a loop that is busy.
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
"""Writes that the loop carries out in one go."""
READER_THREADS = 2
log = logging.getLogger("surehand")


class InlineExecutor:
    """The caller carries out everything at once: for a database in memory, where there is no disk to wait for."""

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
    """Writes whose statements are carried out, to be committed."""


class ThreadedExecutor:
    """One thread that writes and a few that read, each with a connection of its own."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._write_queue: queue.SimpleQueue[list[SqliteJob] | None] = queue.SimpleQueue()
        self._read_queue: queue.SimpleQueue[SqliteJob | None] = queue.SimpleQueue()
        self._queued_jobs: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
        self._threads: list[threading.Thread] = []
        self._home_loop: asyncio.AbstractEventLoop | None = None
        self._writer_connection: sqlite3.Connection | None = None
        self._loop_connection: sqlite3.Connection | None = None
        """The loop's own, for a quick look."""
        self._handover_lock = threading.Lock()
        """Held while something is handed to the writer, and while the loop uses the writer's connection."""
        self._groups_at_writer = 0
        """What the writer was handed and has not finished."""
        self.commit_count, self._is_closed = 0, False

    async def open(self) -> None:
        """Start the threads; raises where the file cannot be opened."""
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
        """However often the caller is cancelled, it goes on only when it is known what became of its write."""
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
        """Something that only the writer may do, outside of any transaction."""
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
        job, self._loop_connection = FunctionJob(function), self._loop_connection or self._connect()
        job.run(self._loop_connection)
        return job.get_result()

    async def data_version(self) -> int:
        """Another number whenever anybody has written, in this process or in another."""
        [(number,)] = await self.quick_read(lambda connection: connection.execute("PRAGMA data_version").fetchall())
        return int(number)

    def _enqueue(self, loop: asyncio.AbstractEventLoop, job: SqliteJob) -> None:
        """What is asked within one turn of the loop is one group."""
        turn = self._queued_jobs.get(loop)
        if turn is None:
            self._queued_jobs[loop] = [job]
            loop.call_soon(self._submit_queued, loop)
        else:
            turn.append(job)

    def _submit_queued(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._queued_jobs:
            return
        with self._handover_lock:
            if loop is not self._home_loop:
                self._submit_to_writer(self._queued_jobs.pop(loop))
            elif (
                not self._groups_at_writer
            ):  # else it is called again when the writer has finished, and the group has grown
                turn = self._queued_jobs.pop(loop)
                group, rest = turn[:MAX_WRITES_PER_GROUP], turn[MAX_WRITES_PER_GROUP:]
                if rest:
                    self._queued_jobs[loop] = rest
                self._submit_to_writer(_ExecutedGroup(group) if self._try_execute(group) else group)

    def _submit_to_writer(self, jobs: list[SqliteJob]) -> None:
        self._groups_at_writer += 1
        self._write_queue.put(jobs)

    def _try_execute(self, group: Sequence[SqliteJob]) -> bool:
        """Whether the statements of the group are carried out, here and now, and only need to be committed."""
        connection = self._writer_connection
        if connection is None or not all([job.is_small for job in group]):  # noqa: C419 - faster
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:  # another process is writing: the writer waits for it, or says what is wrong
            return False
        try:
            if execute_group(connection, cast("Sequence[WriteJob]", group)):
                return True
        except Exception:  # whoever waits must hear of it: the writer finds out whose it is
            log.exception("A group of writes is done one by one")
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        for job in group:
            job.reset()
        return False

    def _run_writer(self) -> None:
        try:
            connection = self._writer_connection = self._connect()
            connection.execute("PRAGMA busy_timeout=0")
        except StoreUnavailable as error:
            self._fail_all(error)
            return
        while (group := self._write_queue.get()) is not None:
            self._run_group(connection, group)
            with self._handover_lock:
                self._groups_at_writer -= 1
            self._deliver_results(group)
            del group  # else it would live until the next one comes, and be cleared away while that one waits
            if self._home_loop in self._queued_jobs:  # a group has gathered meanwhile
                self._schedule_next_group()
        connection.close()

    def _deliver_results(self, group: list[SqliteJob]) -> None:
        if isinstance(group, _ExecutedGroup) and (home := self._home_loop) is not None:  # they all came from there
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                home.call_soon_threadsafe(_resolve_futures, group)
        else:
            _wake_loops(group)

    def _run_group(self, connection: sqlite3.Connection, group: list[SqliteJob]) -> None:
        writes = [job for job in group if isinstance(job, WriteJob)]
        if writes:
            commit_executed(connection, writes) if isinstance(group, _ExecutedGroup) else execute_and_commit(
                connection, writes
            )
            self.commit_count += 1
        for job in group:
            if not isinstance(job, WriteJob):
                job.run(connection)

    def _schedule_next_group(self) -> None:
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            if self._home_loop is not None:
                self._home_loop.call_soon_threadsafe(self._submit_after_callers, self._home_loop)

    def _submit_after_callers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those who were just told go first: what they ask next comes with this group."""
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
            except StoreUnavailable as error:  # for now: the next one tries again
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
            self._home_loop, self._is_closed = None, True
        if self._loop_connection is not None:
            self._loop_connection.close()
        for _ in threads[1:]:
            self._read_queue.put(None)
        self._write_queue.put(None)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def _wake_loops(jobs: Sequence[SqliteJob]) -> None:
    """Wake each loop once, however many of its callers are told."""
    loops: dict[asyncio.AbstractEventLoop, list[SqliteJob]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, mine in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_resolve_futures, mine)


def _resolve_futures(jobs: Sequence[SqliteJob]) -> None:
    for job in jobs:
        job.is_delivered, future = True, job.future
        if future is not None and not future.done():
            future.set_result(None)
