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
from surehand.store.sqlite_jobs import Errand, Job, Work, Write, carry_out_together, commit, keep

Connect: TypeAlias = Callable[[], sqlite3.Connection]

MOST_AT_ONCE = 128
"""Writes that the loop carries out in one go."""
READERS = 2
log = logging.getLogger("surehand")


class Inline:
    """The caller carries out everything at once: for a database in memory, where there is no disk to wait for."""

    def __init__(self, connect: Connect) -> None:
        self._connection = connect()
        self._lock = threading.Lock()
        self.commits = 0

    async def write(self, write: Write) -> list[list[Row]]:
        with self._lock:
            commit(self._connection, [write])
            self.commits += 1
        return write.outcome()  # type: ignore[no-any-return]

    async def alone(self, work: Work) -> Any:
        job = Errand(work)
        with self._lock:
            job.attempt(self._connection)
        return job.outcome()

    read = glance = alone

    async def version(self) -> int:
        return self.commits

    async def close(self) -> None:
        with self._lock:
            self._connection.close()


class _Commit(list[Job]):
    """Writes whose statements are carried out, to be committed."""


class Threads:
    """One thread that writes and a few that read, each with a connection of its own."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._writes: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._turns: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._threads: list[threading.Thread] = []
        self._home: asyncio.AbstractEventLoop | None = None
        self._connection: sqlite3.Connection | None = None
        self._glance: sqlite3.Connection | None = None
        """The loop's own, for a quick look."""
        self._mutex = threading.Lock()
        """Held while something is handed to the writer, and while the loop uses the writer's connection."""
        self._handed = 0
        """What the writer was handed and has not finished."""
        self.commits, self._closed = 0, False

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
        thread = threading.Thread(target=target, name="surehand store", daemon=True)
        self._threads.append(thread)
        thread.start()

    async def write(self, job: Job) -> Any:
        """However often the caller is cancelled, it goes on only when it is known what became of its write."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StoreUnavailable("The store is closed.")
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

    def alone(self, work: Work) -> Coroutine[Any, Any, Any]:
        """Something that only the writer may do, outside of any transaction."""
        return self.write(Errand(work))

    async def read(self, work: Work) -> Any:
        job = Errand(work)
        job.future = asyncio.get_running_loop().create_future()
        self._reads.put(job)
        await job.future
        return job.outcome()

    async def glance(self, work: Work) -> Any:
        if asyncio.get_running_loop() is not self._home:
            return await self.read(work)
        job, self._glance = Errand(work), self._glance or self._connect()
        job.attempt(self._glance)
        return job.outcome()

    async def version(self) -> int:
        """Another number whenever anybody has written, in this process or in another."""
        [(number,)] = await self.glance(lambda connection: connection.execute("PRAGMA data_version").fetchall())
        return int(number)

    def _enqueue(self, loop: asyncio.AbstractEventLoop, job: Job) -> None:
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

    def _hand(self, jobs: list[Job]) -> None:
        self._handed += 1
        self._writes.put(jobs)

    def _carried_out(self, group: Sequence[Job]) -> bool:
        """Whether the statements of the group are carried out, here and now, and only need to be committed."""
        connection = self._connection
        if connection is None or not all([job.light for job in group]):  # noqa: C419 - faster
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:  # another process is writing: the writer waits for it, or says what is wrong
            return False
        try:
            if carry_out_together(connection, cast("Sequence[Write]", group)):
                return True
        except Exception:  # whoever waits must hear of it: the writer finds out whose it is
            log.exception("A group of writes is done one by one")
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
            self._tell(group)
            del group  # else it would live until the next one comes, and be cleared away while that one waits
            if self._home in self._turns:  # a group has gathered meanwhile
                self._again()
        connection.close()

    def _tell(self, group: list[Job]) -> None:
        if isinstance(group, _Commit) and (home := self._home) is not None:  # they all came from there
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                home.call_soon_threadsafe(_tell_all, group)
        else:
            _tell(group)

    def _finish(self, connection: sqlite3.Connection, group: list[Job]) -> None:
        writes = [job for job in group if isinstance(job, Write)]
        if writes:
            keep(connection, writes) if isinstance(group, _Commit) else commit(connection, writes)
            self.commits += 1
        for job in group:
            if not isinstance(job, Write):
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
            self._home, self._closed = None, True
        if self._glance is not None:
            self._glance.close()
        for _ in threads[1:]:
            self._reads.put(None)
        self._writes.put(None)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def _tell(jobs: Sequence[Job]) -> None:
    """Wake each loop once, however many of its callers are told."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, mine in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_tell_all, mine)


def _tell_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.told, future = True, job.future
        if future is not None and not future.done():
            future.set_result(None)
