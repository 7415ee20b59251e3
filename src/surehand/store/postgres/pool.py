"""A pool of connections to PostgreSQL that many callers share and that reconnects when the server is back."""

from __future__ import annotations

import asyncio
import logging
import selectors
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.store.database import Row, StoreUnavailable
from surehand.store.postgres.connection import ServerNotReplying, connect, cut_connection, run_request

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
log = logging.getLogger("surehand")
CONNECTION_TIMEOUT_SECONDS = 10.0
"""How long to wait for a free connection, and for a server that is down."""
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 1.0
"""Pauses between two attempts to connect; each is twice the one before."""
STALLED_LIMIT_SECONDS = 1.0
"""Limit of every request while the server does not reply, until one gets a reply."""
CANCELLED_WRITE_SECONDS = 0.3
"""How long a cancelled caller waits for the reply to its write; after that, the fate of the write is unknown."""
CLOSE_TIMEOUT_SECONDS = 5.0
"""How long `close` waits for requests in progress."""
_END_ABANDONED_SQL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = ANY(%s) AND pid <> pg_backend_pid()"""
_ABANDONED_RETRY_SECONDS = 5.0
"""Pause before an abandoned request that the server cannot end is tried again."""


class PostgresPool:
    """Connects on demand, so that callers wait for a server no longer than it is down."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._idle: list[AsyncConnection[Row]] = []
        self._lent: set[AsyncConnection[Row]] = set()
        self._waiters: deque[asyncio.Future[AsyncConnection[Row]]] = deque()
        self._connecting_tasks: set[asyncio.Task[None]] = set()
        self._connect_error: Exception | None = None
        """Why the last attempt to connect failed; None after one that succeeded."""
        self._abandoned_names: set[str] = set()
        """Application names of connections that were cut while the server worked on their request."""
        self._abandoned_lock = asyncio.Lock()
        self._next_abandoned_attempt = 0.0
        self._all_returned = asyncio.Event()
        self._is_closed = False
        self.is_stalled = False
        """Whether the last request got no reply in time."""

    async def open(self) -> None:
        """Open the first connection; raises at once if that fails."""
        self._idle.append(await self._connect())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """Lend a connection to one caller."""
        connection = await self._take()
        try:
            if self._abandoned_names:
                await self._end_abandoned_requests(connection)
            yield connection
        finally:
            await self._return_connection(connection)

    async def run(
        self,
        connection: AsyncConnection[Row],
        request: Coroutine[Any, Any, T],
        *,
        limit_seconds: float | None,
        cancelled_limit_seconds: float = 0.0,
    ) -> T:
        """Await a request on a lent connection, within its limit, and note whether the server replies."""
        name = connection.info.parameter_status("application_name") or ""
        try:
            result = await run_request(
                connection,
                request,
                limit_seconds=STALLED_LIMIT_SECONDS if self.is_stalled else limit_seconds,
                cancelled_limit_seconds=cancelled_limit_seconds,
            )
        except ServerNotReplying:
            self._note_no_reply(name)
            raise
        except asyncio.CancelledError:
            # A cancelled read is cut at once, which says nothing about the server.
            if cancelled_limit_seconds and connection.closed:
                self._note_no_reply(name)
            raise
        except Exception:
            self.is_stalled = False  # an error is a reply too
            raise
        self.is_stalled = False
        return result

    def _note_no_reply(self, application_name: str) -> None:
        self.is_stalled = True
        self._abandoned_names.add(application_name)

    async def close(self) -> None:
        """Serve the callers that already wait, then close all connections; both within a time limit."""
        self._is_closed = True
        if self._lent or self._waiters:
            with suppress(TimeoutError):
                async with asyncio.timeout(STALLED_LIMIT_SECONDS if self.is_stalled else CLOSE_TIMEOUT_SECONDS):
                    await self._all_returned.wait()
        for task in self._connecting_tasks:
            task.cancel()
        if self._connecting_tasks:
            await asyncio.wait(self._connecting_tasks)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(StoreUnavailable("The store is closed."))
        for connection in self._lent:
            cut_connection(connection)
        while self._idle:
            await self._idle.pop().close()

    async def _take(self) -> AsyncConnection[Row]:
        """Take an idle connection, or wait for one: a new one, or one that another caller returns first."""
        while self._idle:
            connection = self._idle.pop()
            self._lent.add(connection)
            try:
                is_usable = await _is_usable(connection)
            except BaseException:
                await self._return_connection(connection)
                raise
            if is_usable:
                return connection
            self._lent.discard(connection)
            await connection.close()
        return await self._wait_for_connection()

    async def _wait_for_connection(self) -> AsyncConnection[Row]:
        waiter: asyncio.Future[AsyncConnection[Row]] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._start_connecting()
        limit_seconds = STALLED_LIMIT_SECONDS if self.is_stalled else CONNECTION_TIMEOUT_SECONDS
        try:
            async with asyncio.timeout(limit_seconds):
                return await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                await self._return_connection(waiter.result())  # it arrived together with the cancellation
            if isinstance(error, TimeoutError):
                raise self._no_connection_error(limit_seconds) from None
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self._note_returned()

    def _no_connection_error(self, seconds: float) -> StoreUnavailable:
        error = self._connect_error
        if error is not None:
            return StoreUnavailable(f"PostgreSQL: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        return StoreUnavailable(f"PostgreSQL: no connection was free for {seconds:g} seconds.")

    def _start_connecting(self) -> None:
        """Open one more connection for the waiting callers, if the size of the pool allows it."""
        number_open = len(self._idle) + len(self._lent) + len(self._connecting_tasks)
        if number_open < self._size and len(self._connecting_tasks) < len(self._waiters):
            task = asyncio.get_running_loop().create_task(self._connect_for_waiters(), name="surehand store connect")
            self._connecting_tasks.add(task)

    async def _connect_for_waiters(self) -> None:
        """Open a connection, with retries as long as a caller waits, and hand it to the first of them."""
        from psycopg import Error

        pause = MIN_RETRY_SECONDS
        connection: AsyncConnection[Row] | None = None
        try:
            while self._waiters and connection is None:
                try:
                    connection = await self._connect()
                    self._connect_error = None
                except (Error, OSError) as error:
                    self._connect_error = error
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_RETRY_SECONDS)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._connecting_tasks.discard(task)
        if connection is not None:
            self._lent.add(connection)
            await self._return_connection(connection)

    async def _connect(self) -> AsyncConnection[Row]:
        from psycopg.rows import dict_row

        connection = await connect(self._url, row_factory=dict_row)
        # A client that is paused in the middle of a write holds locks that all others wait for.
        set_timeout = f"SET idle_in_transaction_session_timeout = {CONNECTION_TIMEOUT_SECONDS * 1000:.0f}"
        try:
            await run_request(connection, _execute(connection, set_timeout), limit_seconds=CONNECTION_TIMEOUT_SECONDS)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _return_connection(self, connection: AsyncConnection[Row]) -> None:
        """Hand a connection to the caller that waits longest, or keep it; a broken one is closed."""
        from psycopg.pq import TransactionStatus

        self._lent.discard(connection)
        # A caller that was cancelled or failed may have left a transaction open.
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            await connection.close()
        elif not self._hand_to_waiter(connection):
            if self._is_closed:
                await connection.close()
            else:
                self._idle.append(connection)
        if self._waiters:
            self._start_connecting()
        self._note_returned()

    def _hand_to_waiter(self, connection: AsyncConnection[Row]) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._lent.add(connection)
                waiter.set_result(connection)
                return True
        return False

    def _note_returned(self) -> None:
        if self._is_closed and not self._lent and not self._waiters:
            self._all_returned.set()

    async def _end_abandoned_requests(self, connection: AsyncConnection[Row]) -> None:
        """End the server's processes of abandoned requests: none may commit after a later write has read its rows."""
        loop = asyncio.get_running_loop()
        async with self._abandoned_lock:
            names = list(self._abandoned_names)
            if not names or loop.time() < self._next_abandoned_attempt:
                return
            deadline = loop.time() + STALLED_LIMIT_SECONDS
            while rows := await self.run(
                connection, _execute(connection, _END_ABANDONED_SQL, [names]), limit_seconds=STALLED_LIMIT_SECONDS
            ):
                if loop.time() > deadline:
                    log.warning("PostgreSQL cannot end %d abandoned requests yet; they may still commit.", len(rows))
                    self._next_abandoned_attempt = loop.time() + _ABANDONED_RETRY_SECONDS
                    return
                await asyncio.sleep(MIN_RETRY_SECONDS)
            self._abandoned_names.difference_update(names)


async def _execute(connection: AsyncConnection[Row], sql: str, params: list[Any] | None = None) -> list[Row]:
    cursor = await connection.execute(sql, params)
    return await cursor.fetchall() if cursor.description else []


async def _is_usable(connection: AsyncConnection[Row]) -> bool:
    """Check an idle connection: one whose socket is readable may have been closed by the server, so it is tried."""
    from psycopg import OperationalError

    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if not selector.select(0):
            return True
    try:
        await run_request(connection, _execute(connection, ""), limit_seconds=STALLED_LIMIT_SECONDS)
    except (OperationalError, StoreUnavailable):
        return False
    return True
