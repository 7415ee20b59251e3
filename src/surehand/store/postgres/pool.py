"""A pool of connections to PostgreSQL that many callers share and that reconnects when the server is back."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from surehand.store.database import Row, StoreUnavailable

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CONNECTION_TIMEOUT_SECONDS = 10.0
"""How long to wait for a free connection, and for a server that is down."""
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 1.0
"""Pauses between two attempts to connect; each is twice the one before."""


class PostgresPool:
    """Connects on demand, so that callers wait for a server no longer than it is down."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._free_slots = asyncio.Semaphore(size)
        self._idle: list[AsyncConnection[Row]] = []
        self._is_closed = False

    async def open(self) -> None:
        """Open the first connection; raises at once if that fails."""
        self._idle.append(await self._connect())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """Lend a connection to one caller."""
        await self._acquire_slot()
        try:
            connection = await self._take_idle() or await self._connect_with_retry()
            try:
                yield connection
            finally:
                await self._return_connection(connection)
        finally:
            self._free_slots.release()

    async def close(self) -> None:
        """Serve the callers that already wait, then close all connections."""
        self._is_closed = True
        for _ in range(self._size):
            await self._free_slots.acquire()
        while self._idle:
            await self._idle.pop().close()

    async def _acquire_slot(self) -> None:
        try:
            async with asyncio.timeout(CONNECTION_TIMEOUT_SECONDS):
                await self._free_slots.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"PostgreSQL: no connection was free for {CONNECTION_TIMEOUT_SECONDS:g} seconds."
            ) from None

    async def _take_idle(self) -> AsyncConnection[Row] | None:
        while self._idle:
            connection = self._idle.pop()
            try:
                if await _is_usable(connection):
                    return connection
            except BaseException:
                await self._return_connection(connection)
                raise
            await connection.close()
        return None

    async def _connect_with_retry(self) -> AsyncConnection[Row]:
        from psycopg import OperationalError

        loop = asyncio.get_running_loop()
        deadline = loop.time() + CONNECTION_TIMEOUT_SECONDS
        pause = MIN_RETRY_SECONDS
        while True:
            try:
                return await self._connect()
            except OperationalError:
                if loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _connect(self) -> AsyncConnection[Row]:
        from psycopg import AsyncConnection
        from psycopg.rows import dict_row

        connection = await AsyncConnection.connect(self._url, autocommit=True, row_factory=dict_row)
        try:  # a client that is paused in the middle of a write holds locks that all others wait for
            await connection.execute(
                f"SET idle_in_transaction_session_timeout = {CONNECTION_TIMEOUT_SECONDS * 1000:.0f}"
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _return_connection(self, connection: AsyncConnection[Row]) -> None:
        from psycopg.pq import TransactionStatus

        # A caller that was cancelled or failed may have left a transaction open.
        if self._is_closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            await connection.close()
        else:
            self._idle.append(connection)


async def _is_usable(connection: AsyncConnection[Row]) -> bool:
    """Check an idle connection: one whose socket is readable may have been closed by the server, so it is tried."""
    from psycopg import OperationalError

    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if not selector.select(0):
            return True
    try:
        await connection.execute("")
    except OperationalError:
        return False
    return True
