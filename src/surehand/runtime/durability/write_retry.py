"""Write retry: repeats writes that failed because the store was unavailable, for as long as the runtime lives."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from surehand.store.database import Row, Statement, StoreUnavailable, UnexpectedRowCount

if TYPE_CHECKING:
    from surehand.runtime.runtime_store import RuntimeStore
    from surehand.store.store import Store

log = logging.getLogger("surehand")
RETRY_DELAYS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Delays between attempts to store an outcome: long enough for a restart of the database."""
OUTCOME_WRITE_SECONDS = 30.0
"""After this time, an outcome is not tried again while its caller waits, but in the background."""
INTERRUPTED_WRITE_SECONDS = 1.0
"""Limit on the write of a cancelled or timed-out call: its caller must not wait for a store that stands still."""
MAX_UNWRITTEN_CALLS = 10_000
"""Limit on calls with unwritten statements; further ones are dropped."""


class WriteRetry:
    """The unwritten statements of each call, oldest first."""

    def __init__(self, store: RuntimeStore) -> None:
        self._store = store
        self._unwritten_statements: dict[str, list[Statement]] = {}
        self._retry_lock = asyncio.Lock()

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._unwritten_statements

    def clear(self) -> None:
        """Drop all unwritten statements."""
        self._unwritten_statements.clear()

    def retry_later(self, call_id: str, statements: list[Statement]) -> None:
        """Queue the statements of a call, to be written when the store is available."""
        if len(self._unwritten_statements) < MAX_UNWRITTEN_CALLS or call_id in self._unwritten_statements:
            self._unwritten_statements[call_id] = statements

    async def write_or_retry_later(
        self, call_id: str, statement: Statement, *, later_statement: Statement | None = None
    ) -> list[Row]:
        """Write a statement, or queue it (or `later_statement`) if the store is unavailable or does not reply soon."""
        store = await self._store.open()
        if store.database.is_stalled:
            self.retry_later(call_id, [later_statement or statement])
            return []
        try:
            async with asyncio.timeout(INTERRUPTED_WRITE_SECONDS):
                return (await store.write([statement]))[0]
        except (StoreUnavailable, TimeoutError):
            self.retry_later(call_id, [later_statement or statement])
        except asyncio.CancelledError:  # the write may not have started
            self.retry_later(call_id, [later_statement or statement])
            raise
        return []

    async def retry_all(self) -> None:
        """Write all queued statements."""
        store = await self._store.open()
        for call_id in list(self._unwritten_statements):
            await self.retry_call(store, call_id)

    async def retry_call(self, store: Store, call_id: str) -> None:
        """Write the queued statements of one call.

        The lock lets a caller that uses the id again wait for a write that is already on its way.
        """
        async with self._retry_lock:
            statements = self._unwritten_statements.get(call_id)
            if statements is None:
                return
            try:
                await store.write(statements)
            except UnexpectedRowCount:
                log.info(
                    "The queued write of call %s is obsolete: it was committed already, or the call was never started.",
                    call_id,
                )
            except StoreUnavailable:  # move it to the end: these very statements may be what fails
                self._unwritten_statements[call_id] = self._unwritten_statements.pop(call_id)
                raise
            self._unwritten_statements.pop(call_id, None)

    async def write_with_retries(
        self, store: Store, call_id: str, statements: list[Statement], *, is_interrupted: bool = False
    ) -> None:
        """Write an outcome, with retries; queues it if the store stays unavailable."""
        try:
            if not is_interrupted:
                await _write_repeatedly(store, statements)
                return
            async with asyncio.timeout(INTERRUPTED_WRITE_SECONDS):
                await store.write(statements)
        except TimeoutError:
            self.retry_later(call_id, statements)
            limit = f"{INTERRUPTED_WRITE_SECONDS:g} seconds"
            raise StoreUnavailable(f"The store did not take the outcome within {limit}.") from None
        except (asyncio.CancelledError, StoreUnavailable):
            self.retry_later(call_id, statements)
            raise


async def _write_repeatedly(store: Store, statements: list[Statement]) -> None:
    """Write until it succeeds; raises what the last attempt raised."""
    # No timer: this runs for every durable call, and each attempt has the database's own limit.
    started_at = time.monotonic()
    for delay in RETRY_DELAYS_SECONDS:
        try:
            await store.write(statements)
            return
        except StoreUnavailable:
            if time.monotonic() - started_at > OUTCOME_WRITE_SECONDS:
                raise
            await asyncio.sleep(delay)
    await store.write(statements)
