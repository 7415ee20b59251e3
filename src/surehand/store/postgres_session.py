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
from surehand.store.locks import check_owner

if TYPE_CHECKING:
    from psycopg import AsyncConnection

SHORTEST, LONGEST = 0.1, 5.0
"""Seconds between two attempts to come back."""
PATIENCE = 10.0
"""Seconds to wait for a lock; for a farewell, a tenth of it."""
UNGRANTED = 1.0
"""Seconds until a lock is tried again that a session of ours still holds which the server believes to be alive."""
# A server that vanished without a word is noticed within half a minute.
_WATCHFUL: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def key_of(owner: str) -> int:
    """The number of an owner's advisory lock."""
    return int.from_bytes(hashlib.sha256(check_owner(owner).encode()).digest()[:8], "big", signed=True)


class Session:
    """Comes back by itself, takes its locks again, and has everybody look: something may have been missed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._owners: set[str] = set()
        self._taken: set[str] = set()
        self._callbacks: list[Callable[[], None]] = []
        self._changed, self._news = asyncio.Event(), asyncio.Condition()
        self._keeper: asyncio.Task[None] | None = None
        self._connected, self._lost = False, False
        self._back_since = -math.inf

    def start(self) -> None:
        """Connect, once, when there is a reason to."""
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="surehand store session")

    async def hold(self, owner: str) -> None:
        """Give back when the lock is taken."""
        key_of(owner)
        self.start()
        self._owners.add(owner)
        try:
            await self._until(lambda: owner in self._taken, PATIENCE)
        except BaseException:
            self._owners.discard(owner)
            self._changed.set()
            raise

    async def let_go(self, owner: str) -> None:
        """Give back when nobody sees the lock any more."""
        if owner in self._owners:
            self._owners.discard(owner)
            await self._until(lambda: owner not in self._taken, PATIENCE)

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever somebody announces; gives what ends it."""
        self.start()
        self._callbacks.append(callback)
        self._changed.set()

        def stop() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def was_lost_within(self, seconds: float) -> bool:
        """Whether the connection is gone, or was until then: those of others may be, too."""
        return self._lost or time.monotonic() - self._back_since < seconds

    async def close(self) -> None:
        """Let go of everything."""
        if self._keeper is None:
            return
        self._owners.clear()
        with suppress(StoreUnavailable):
            await self._until(lambda: not self._taken, PATIENCE / 10)
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        self._keeper = None

    async def _until(self, true: Callable[[], bool], seconds: float) -> None:
        self._changed.set()
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(true)
        except TimeoutError:
            raise StoreUnavailable(f"PostgreSQL: an owner's lock was not changed within {seconds:g} seconds.") from None

    async def _keep(self) -> None:
        from psycopg import AsyncConnection, Error

        pause = SHORTEST
        while True:
            with suppress(Error, OSError):
                connection = await AsyncConnection.connect(self._url, autocommit=True, **_WATCHFUL)
                pause = SHORTEST
                try:
                    await self._attend(connection)
                finally:
                    await connection.close()
            await self._mourn()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST)

    async def _attend(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute("LISTEN surehand")
        self._rejoice()
        while True:
            self._changed.clear()
            await self._take(connection)
            self._call_back()
            await self._listen(connection)

    def _rejoice(self) -> None:
        if self._lost:
            self._back_since = time.monotonic()
        self._connected, self._lost = True, False

    async def _take(self, connection: AsyncConnection[Any]) -> None:
        for owner in self._owners - self._taken:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", [key_of(owner)])
            if (await cursor.fetchall())[0][0]:
                self._taken.add(owner)
        for owner in self._taken - self._owners:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [key_of(owner)])
            self._taken.discard(owner)
        async with self._news:
            self._news.notify_all()

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        """Until there is something to do, or the connection is lost."""
        hearing, changed = asyncio.create_task(self._hear(connection)), asyncio.create_task(self._changed.wait())
        until = UNGRANTED if self._owners - self._taken else None
        try:
            await asyncio.wait((hearing, changed), timeout=until, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()
            changed.cancel()
            await asyncio.wait((hearing, changed))
        if not hearing.cancelled():
            hearing.result()

    async def _hear(self, connection: AsyncConnection[Any]) -> None:
        async for _ in connection.notifies():
            self._call_back()

    def _call_back(self) -> None:
        for callback in self._callbacks:
            asyncio.get_running_loop().call_soon(callback)

    async def _mourn(self) -> None:
        self._connected, self._lost = False, self._connected or self._lost
        self._taken.clear()
        async with self._news:
            self._news.notify_all()
