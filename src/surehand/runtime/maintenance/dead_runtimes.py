"""Dead runtimes: takes over the calls of runtimes on the same store that died, and finds out what they have done."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.durability.call_messages import mark_interrupted_calls, mark_unknown_effect
from surehand.runtime.maintenance.verify import EffectVerification
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
VERIFY_TIMEOUT_SECONDS = 5.0
"""Seconds to wait for `verify` functions; slower ones continue in the background."""
_SELECT_UNKNOWN_CALLS = "SELECT call_id FROM ledger WHERE state = 'unknown' AND state <> 'ended'"


class DeadRuntimes:
    """Releases the calls of dead runtimes, and verifies those whose effect is unknown."""

    def __init__(
        self, store: Store, owner_id: str, verification: EffectVerification, background_tasks: BackgroundTasks
    ) -> None:
        self._store = store
        self._owner_id = owner_id
        self._verification = verification
        self._background_tasks = background_tasks
        self._verify_tasks: dict[str, asyncio.Task[None]] = {}

    async def recover_dead_runtimes(self) -> bool:
        """Release the calls of dead runtimes; True if the effect of any is unknown."""
        unknown = await self._store.owners.release_dead_owners(self._owner_id)
        for call in unknown:
            log.warning("The effect of call %s of %s is unknown: its process died.", call.call_id, call.tool)
        if unknown:
            await self.verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._owner_id)
        return bool(unknown)

    async def verify_unknown_calls(self) -> None:
        """Run `verify` for the calls whose effect is unknown, and wait for the fast ones."""
        call_ids = [row["call_id"] for row in await self._store.database.read(_SELECT_UNKNOWN_CALLS)]
        for call_id in call_ids:
            if call_id not in self._verify_tasks:
                self._verify_tasks[call_id] = self._background_tasks.spawn(self._verify_unknown_call(call_id))
        if tasks := [self._verify_tasks[call_id] for call_id in call_ids]:
            await asyncio.wait(tasks, timeout=VERIFY_TIMEOUT_SECONDS)

    async def _verify_unknown_call(self, call_id: str) -> None:
        """Show that the effect of a call is unknown, and run its `verify`."""
        try:
            row = await self._store.pending.find(call_id)
            if row is not None:
                await mark_unknown_effect(self._store, row.call)
                await self._verification.verify(row)
        except StoreError as error:
            log.warning("The effect of call %s is still unknown, because the store failed: %s", call_id, error)
        finally:
            self._verify_tasks.pop(call_id, None)
