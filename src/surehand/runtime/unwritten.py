"""Unwritten: what the store would not take, tried again for as long as the runtime lives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from surehand.store.database import Row, Statement, StoreUnavailable, Unexpected

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store

log = logging.getLogger("surehand")
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Pauses between tries to write down what has happened: a database that restarts is waited for."""
MOST = 10_000


class Unwritten:
    """Statements by call, oldest first."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._steps: dict[str, list[Statement]] = {}
        self._mending = asyncio.Lock()

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._steps

    def clear(self) -> None:
        """Give up on all of them."""
        self._steps.clear()

    def keep(self, call_id: str, steps: list[Statement]) -> None:
        """Write it when the store takes it."""
        if len(self._steps) < MOST or call_id in self._steps:
            self._steps[call_id] = steps

    async def surely(self, call_id: str, step: Statement, *, later: Statement | None = None) -> list[Row]:
        """Put something right, now or as soon as the store takes it."""
        store = await self._parts.remembered()
        try:
            return (await store.write([step]))[0]
        except StoreUnavailable:
            self.keep(call_id, [later or step])
        except asyncio.CancelledError:  # it may not have come to the write at all
            self.keep(call_id, [later or step])
            raise
        return []

    async def retry(self) -> None:
        """What could not be written before."""
        store = await self._parts.remembered()
        for call_id in list(self._steps):
            await self.mend(store, call_id)

    async def mend(self, store: Store, call_id: str) -> None:
        """One at a time: a call that is asked for again goes on only when nothing of it is on its way any more."""
        async with self._mending:
            if (steps := self._steps.get(call_id)) is None:
                return
            try:
                await store.write(steps)
            except Unexpected:
                log.info("What was left to write of call %s is there already, or was never begun.", call_id)
            except StoreUnavailable:  # the next time another one comes first: it may be this one's own fault
                self._steps[call_id] = self._steps.pop(call_id)
                raise
            self._steps.pop(call_id, None)

    async def insist(self, store: Store, call_id: str, steps: list[Statement]) -> None:
        """Write what has happened, whatever it takes."""
        try:
            for pause in PAUSES:
                try:
                    await store.write(steps)
                    return
                except StoreUnavailable:
                    await asyncio.sleep(pause)
            await store.write(steps)
        except (asyncio.CancelledError, StoreUnavailable):
            self.keep(call_id, steps)
            raise
