"""Unwritten: what the store would not take, tried again for as long as the runtime lives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from surehand.store.database import Row, Statement, StoreUnavailable, UnexpectedRowCount

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

log = logging.getLogger("surehand")
RETRY_DELAYS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Pauses between tries to write down what has happened: a database that restarts is waited for."""
MAX_UNWRITTEN_CALLS = 10_000


class WriteRetry:
    """Statements by call, oldest first."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self._unwritten_statements: dict[str, list[Statement]] = {}
        self._retry_lock = asyncio.Lock()

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._unwritten_statements

    def clear(self) -> None:
        """Give up on all of them."""
        self._unwritten_statements.clear()

    def retry_later(self, call_id: str, statements: list[Statement]) -> None:
        """Write it when the store takes it."""
        if len(self._unwritten_statements) < MAX_UNWRITTEN_CALLS or call_id in self._unwritten_statements:
            self._unwritten_statements[call_id] = statements

    async def write_or_retry_later(
        self, call_id: str, statement: Statement, *, later_statement: Statement | None = None
    ) -> list[Row]:
        """Put something right, now or as soon as the store takes it."""
        store = await self._services.open_store()
        try:
            return (await store.write([statement]))[0]
        except StoreUnavailable:
            self.retry_later(call_id, [later_statement or statement])
        except asyncio.CancelledError:  # it may not have come to the write at all
            self.retry_later(call_id, [later_statement or statement])
            raise
        return []

    async def retry_all(self) -> None:
        """What could not be written before."""
        store = await self._services.open_store()
        for call_id in list(self._unwritten_statements):
            await self.retry_call(store, call_id)

    async def retry_call(self, store: Store, call_id: str) -> None:
        """One at a time: a call that is asked for again goes on only when nothing of it is on its way any more."""
        async with self._retry_lock:
            if (steps := self._unwritten_statements.get(call_id)) is None:
                return
            try:
                await store.write(steps)
            except UnexpectedRowCount:
                log.info("What was left to write of call %s is there already, or was never begun.", call_id)
            except StoreUnavailable:  # the next time another one comes first: it may be this one's own fault
                self._unwritten_statements[call_id] = self._unwritten_statements.pop(call_id)
                raise
            self._unwritten_statements.pop(call_id, None)

    async def write_with_retries(self, store: Store, call_id: str, statements: list[Statement]) -> None:
        """Write what has happened, whatever it takes."""
        try:
            for pause in RETRY_DELAYS_SECONDS:
                try:
                    await store.write(statements)
                    return
                except StoreUnavailable:
                    await asyncio.sleep(pause)
            await store.write(statements)
        except (asyncio.CancelledError, StoreUnavailable):
            self.retry_later(call_id, statements)
            raise
