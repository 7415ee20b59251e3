"""The session with PostgreSQL that stays open: it holds the owner locks and receives notifications.

Both belong to a database session, so a pooled connection cannot do this.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.store.database import StoreUnavailable, validate_owner
from surehand.store.postgres.connection import connect, cut_connection, run_request

if TYPE_CHECKING:
    from psycopg import AsyncConnection

MIN_RECONNECT_SECONDS, MAX_RECONNECT_SECONDS = 0.1, 5.0
"""Pauses between two attempts to reconnect; each is twice the one before."""
LOCK_TIMEOUT_SECONDS = 10.0
"""How long to wait for a lock; when closing, a tenth of it."""
LOCK_RETRY_SECONDS = 1.0
"""Pause before a lock is tried again: the server may not have noticed yet that an earlier session of ours is gone."""


def lock_key(owner: str) -> int:
    """Return the key of an owner's advisory lock."""
    # PostgreSQL identifies an advisory lock by a signed integer of 64 bits.
    return int.from_bytes(hashlib.sha256(validate_owner(owner).encode()).digest()[:8], "big", signed=True)


class PostgresSession:
    """Reconnects by itself, takes its locks again, and then runs all callbacks, because notifications may be lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._wanted_owners: set[str] = set()
        self._locked_owners: set[str] = set()
        self._callbacks: list[Callable[[], None]] = []
        self._work_available = asyncio.Event()
        self._locks_changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._connection: AsyncConnection[Any] | None = None
        self._is_connected = False
        self._is_lost = False
        """Whether the connection was lost and is not back yet."""
        self._reconnected_at = -math.inf

    def start(self) -> None:
        """Connect on first use."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="surehand store session")

    async def acquire(self, owner: str) -> None:
        """Acquire the lock of an owner; returns when it is held."""
        validate_owner(owner)
        self.start()
        self._wanted_owners.add(owner)
        try:
            await self._wait_until(lambda: owner in self._locked_owners, LOCK_TIMEOUT_SECONDS)
        except BaseException:
            self._wanted_owners.discard(owner)
            self._work_available.set()
            raise

    async def release(self, owner: str) -> None:
        """Release the lock of an owner; returns when it is free."""
        if owner in self._wanted_owners:
            self._wanted_owners.discard(owner)
            await self._wait_until(lambda: owner not in self._locked_owners, LOCK_TIMEOUT_SECONDS)

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every notification; returns a function that unsubscribes."""
        self.start()
        self._callbacks.append(callback)
        self._work_available.set()

        def stop() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def was_lost_within(self, seconds: float) -> bool:
        """Whether the connection is lost, or was so recently: then other owners may have lost theirs too."""
        return self._is_lost or time.monotonic() - self._reconnected_at < seconds

    async def close(self) -> None:
        """Release all locks and close the connection."""
        if self._task is None:
            return
        self._wanted_owners.clear()
        with suppress(StoreUnavailable):
            await self._wait_until(lambda: not self._locked_owners, LOCK_TIMEOUT_SECONDS / 10)
        if self._connection is not None:
            cut_connection(self._connection)  # else a server that does not reply would keep the task
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        self._work_available.set()
        try:
            async with asyncio.timeout(seconds), self._locks_changed:
                await self._locks_changed.wait_for(condition)
        except TimeoutError:
            raise StoreUnavailable(
                f"PostgreSQL: an owner's lock was not acquired or released within {seconds:g} seconds."
            ) from None

    async def _run(self) -> None:
        from psycopg import Error

        pause = MIN_RECONNECT_SECONDS
        while True:
            with suppress(Error, OSError, StoreUnavailable):
                connection = self._connection = await connect(self._url)
                pause = MIN_RECONNECT_SECONDS
                try:
                    await self._serve_connection(connection)
                finally:
                    self._connection = None
                    await connection.close()
            await self._mark_disconnected()
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RECONNECT_SECONDS)

    async def _serve_connection(self, connection: AsyncConnection[Any]) -> None:
        # Before the locks and the callbacks: a notification between them and LISTEN would be lost.
        await _execute(connection, "LISTEN surehand")
        self._mark_connected()
        while True:
            self._work_available.clear()
            await self._update_locks(connection)
            self._schedule_callbacks()
            await self._wait_for_work(connection)

    def _mark_connected(self) -> None:
        if self._is_lost:
            self._reconnected_at = time.monotonic()
        self._is_connected = True
        self._is_lost = False

    async def _update_locks(self, connection: AsyncConnection[Any]) -> None:
        for owner in self._wanted_owners - self._locked_owners:
            # `try`, because a wait for the lock would keep the connection from everything else.
            [(is_locked,)] = await _execute(connection, "SELECT pg_try_advisory_lock(%s)", [lock_key(owner)])
            if is_locked:
                self._locked_owners.add(owner)
        for owner in self._locked_owners - self._wanted_owners:
            await _execute(connection, "SELECT pg_advisory_unlock(%s)", [lock_key(owner)])
            self._locked_owners.discard(owner)
        async with self._locks_changed:
            self._locks_changed.notify_all()

    async def _wait_for_work(self, connection: AsyncConnection[Any]) -> None:
        """Receive notifications until locks have to change; raises if the connection is lost."""
        receiving = asyncio.create_task(self._receive_notifications(connection))
        changed = asyncio.create_task(self._work_available.wait())
        timeout = LOCK_RETRY_SECONDS if self._wanted_owners - self._locked_owners else None
        try:
            await asyncio.wait((receiving, changed), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
            changed.cancel()
            await asyncio.wait((receiving, changed))
        if not receiving.cancelled():
            receiving.result()

    async def _receive_notifications(self, connection: AsyncConnection[Any]) -> None:
        async for _ in connection.notifies():
            self._schedule_callbacks()

    def _schedule_callbacks(self) -> None:
        for callback in self._callbacks:
            asyncio.get_running_loop().call_soon(callback)

    async def _mark_disconnected(self) -> None:
        self._is_lost = self._is_connected or self._is_lost
        self._is_connected = False
        self._locked_owners.clear()
        async with self._locks_changed:
            self._locks_changed.notify_all()


async def _execute(connection: AsyncConnection[Any], sql: str, params: list[Any] | None = None) -> list[Any]:
    """Execute one statement; raises if the server does not reply in time."""
    return await run_request(connection, _fetch_rows(connection, sql, params), limit_seconds=LOCK_TIMEOUT_SECONDS)


async def _fetch_rows(connection: AsyncConnection[Any], sql: str, params: list[Any] | None) -> list[Any]:
    cursor = await connection.execute(sql, params)
    return await cursor.fetchall() if cursor.description else []
