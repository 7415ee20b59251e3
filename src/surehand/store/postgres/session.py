"""The one connection to PostgreSQL that stays: it holds the owner locks and hears announcements."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.store.database import StoreUnavailable
from surehand.store.sqlite.owner_locks import validate_owner

if TYPE_CHECKING:
    from psycopg import AsyncConnection

MIN_RECONNECT_SECONDS, MAX_RECONNECT_SECONDS = 0.1, 5.0
"""Seconds between two attempts to come back."""
LOCK_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for a lock; for a farewell, a tenth of it."""
LOCK_RETRY_SECONDS = 1.0
"""Seconds until a lock is tried again that a session of ours still holds which the server believes to be alive."""
# A server that vanished without a word is noticed within half a minute.
_KEEPALIVE_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def lock_key(owner: str) -> int:
    """The number of an owner's advisory lock."""
    return int.from_bytes(hashlib.sha256(validate_owner(owner).encode()).digest()[:8], "big", signed=True)


class PostgresSession:
    """Comes back by itself, takes its locks again, and has everybody look: something may have been missed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._wanted_owners: set[str] = set()
        self._locked_owners: set[str] = set()
        self._callbacks: list[Callable[[], None]] = []
        self._work_available, self._locks_changed = asyncio.Event(), asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._is_connected, self._is_lost = False, False
        self._reconnected_at = -math.inf

    def start(self) -> None:
        """Connect, once, when there is a reason to."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="surehand store session")

    async def acquire(self, owner: str) -> None:
        """Give back when the lock is taken."""
        lock_key(owner)
        self.start()
        self._wanted_owners.add(owner)
        try:
            await self._wait_until(lambda: owner in self._locked_owners, LOCK_TIMEOUT_SECONDS)
        except BaseException:
            self._wanted_owners.discard(owner)
            self._work_available.set()
            raise

    async def release(self, owner: str) -> None:
        """Give back when nobody sees the lock any more."""
        if owner in self._wanted_owners:
            self._wanted_owners.discard(owner)
            await self._wait_until(lambda: owner not in self._locked_owners, LOCK_TIMEOUT_SECONDS)

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever somebody announces; gives what ends it."""
        self.start()
        self._callbacks.append(callback)
        self._work_available.set()

        def stop() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def was_lost_within(self, seconds: float) -> bool:
        """Whether the connection is gone, or was until then: those of others may be, too."""
        return self._is_lost or time.monotonic() - self._reconnected_at < seconds

    async def close(self) -> None:
        """Let go of everything."""
        if self._task is None:
            return
        self._wanted_owners.clear()
        with suppress(StoreUnavailable):
            await self._wait_until(lambda: not self._locked_owners, LOCK_TIMEOUT_SECONDS / 10)
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        self._work_available.set()
        try:
            async with asyncio.timeout(seconds), self._locks_changed:
                await self._locks_changed.wait_for(condition)
        except TimeoutError:
            raise StoreUnavailable(f"PostgreSQL: an owner's lock was not changed within {seconds:g} seconds.") from None

    async def _run(self) -> None:
        from psycopg import AsyncConnection, Error

        pause = MIN_RECONNECT_SECONDS
        while True:
            with suppress(Error, OSError):
                connection = await AsyncConnection.connect(self._url, autocommit=True, **_KEEPALIVE_OPTIONS)
                pause = MIN_RECONNECT_SECONDS
                try:
                    await self._serve_connection(connection)
                finally:
                    await connection.close()
            await self._mark_disconnected()
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RECONNECT_SECONDS)

    async def _serve_connection(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute("LISTEN surehand")
        self._mark_connected()
        while True:
            self._work_available.clear()
            await self._update_locks(connection)
            self._schedule_callbacks()
            await self._wait_for_work(connection)

    def _mark_connected(self) -> None:
        if self._is_lost:
            self._reconnected_at = time.monotonic()
        self._is_connected, self._is_lost = True, False

    async def _update_locks(self, connection: AsyncConnection[Any]) -> None:
        for owner in self._wanted_owners - self._locked_owners:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", [lock_key(owner)])
            if (await cursor.fetchall())[0][0]:
                self._locked_owners.add(owner)
        for owner in self._locked_owners - self._wanted_owners:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [lock_key(owner)])
            self._locked_owners.discard(owner)
        async with self._locks_changed:
            self._locks_changed.notify_all()

    async def _wait_for_work(self, connection: AsyncConnection[Any]) -> None:
        """Until there is something to do, or the connection is lost."""
        hearing, changed = (
            asyncio.create_task(self._receive_notifications(connection)),
            asyncio.create_task(self._work_available.wait()),
        )
        until = LOCK_RETRY_SECONDS if self._wanted_owners - self._locked_owners else None
        try:
            await asyncio.wait((hearing, changed), timeout=until, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()
            changed.cancel()
            await asyncio.wait((hearing, changed))
        if not hearing.cancelled():
            hearing.result()

    async def _receive_notifications(self, connection: AsyncConnection[Any]) -> None:
        async for _ in connection.notifies():
            self._schedule_callbacks()

    def _schedule_callbacks(self) -> None:
        for callback in self._callbacks:
            asyncio.get_running_loop().call_soon(callback)

    async def _mark_disconnected(self) -> None:
        self._is_connected, self._is_lost = False, self._is_connected or self._is_lost
        self._locked_owners.clear()
        async with self._locks_changed:
            self._locks_changed.notify_all()
