"""Shared breaker: what all processes on a store know of a provider's health.

A call looks at what is known here and costs the store nothing. Failures and recoveries are written, the keeper brings
what others wrote, and of all processes one call at a time tries a provider that was down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from surehand.core.outcome import Outcome
from surehand.runtime.limits.breaker import Breaker
from surehand.store.errors import StoreError
from surehand.store.tables.breakers import BreakerRow

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

log = logging.getLogger("surehand")
PROBE_RETRY_SECONDS = 0.25
"""Seconds before a call asks again whether it may try a provider that another process tries."""
MAX_UNWRITTEN_UPDATES = 1_000
"""What was learned while the store was away, and is still to be written."""


class SharedBreaker(Breaker):
    """Local like any other between two looks at the store."""

    def __init__(self, name: str, services: RuntimeServices) -> None:
        limits = services.defaults
        super().__init__(services.clock, limits.breaker_failures, limits.breaker_pause)
        self._name, self._services = name, services
        self._unwritten_updates: list[Callable[[Store], Awaitable[BreakerRow | None]]] = []
        self._is_writing = False
        self.change_count = 0
        """Grows with all that is learned here: what was read before says nothing new."""

    @property
    def is_probing(self) -> bool:
        """Whether a call of this process tries the provider."""
        return self._is_probing

    def is_probe_due(self) -> bool:
        """Whether the next call would be the one that tries."""
        return self.is_open and not self._is_probing and self._retry_at <= self._clock.now()

    async def claim_probe(self) -> float | None:
        """Ask all processes to be the one that tries: None if so, or if the provider is well, else seconds to wait."""
        self._is_probing = True
        try:
            store = await self._services.open_store()
            found = await store.breakers.claim_probe(self._name, self._services.owner_id, self._pause_seconds)
        except StoreError as error:
            log.warning("Whether another process tries %s is not known: %s", self._name, error)
            return None
        except asyncio.CancelledError:
            self._queue_update(self._write_lost_probe)
            raise
        finally:
            self._is_probing = False
        return None if found is None else self._probe_refused(found)

    def _probe_refused(self, health: BreakerRow) -> float | None:
        self.load_health(health)
        if not self.is_open:
            return None
        self._retry_at = max(self._retry_at, self._clock.now() + PROBE_RETRY_SECONDS)
        return self._retry_at - self._clock.now()

    def record_outcome(self, outcome: Outcome) -> None:
        """Learn from a call that went through, and let the others know."""
        knew = self._failure_count > 0
        super().record_outcome(outcome)
        if self._failure_count:
            self._queue_update(self._write_failure)
        elif knew:
            self._queue_update(self._write_recovery)

    def release_probe(self) -> None:
        """The call that tried came to nothing: another may try."""
        if self._is_probing:
            self._queue_update(self._write_lost_probe)
        super().release_probe()

    def load_health(self, health: BreakerRow) -> None:
        """What the store says."""
        self._failure_count = health.failures
        # The clock of the database may have been set back since.
        self._retry_at = self._clock.now() + min(health.retry_in_seconds, self._pause_seconds)

    def _queue_update(self, update: Callable[[Store], Awaitable[BreakerRow | None]]) -> None:
        self.change_count += 1
        if len(self._unwritten_updates) < MAX_UNWRITTEN_UPDATES:
            self._unwritten_updates.append(update)
        if not self._is_writing and self._services.is_open:
            _ = self._services.reaper.spawn(self.write_updates())

    async def write_updates(self) -> None:
        """Let the others know what was learned here, in order. What cannot be written now is tried at the next beat."""
        if self._is_writing:
            return
        self._is_writing = True
        try:
            store = await self._services.open_store()
            while self._unwritten_updates:
                health = await self._unwritten_updates[0](store)
                del self._unwritten_updates[0]
                self.change_count += 1
                if health is not None and not self._unwritten_updates:
                    self.load_health(health)
        except StoreError as error:
            log.warning("The health of %s could not be written: %s", self._name, error)
        finally:
            self._is_writing = False

    @property
    def has_unwritten_updates(self) -> bool:
        """Whether the others do not know yet what was learned here."""
        return bool(self._unwritten_updates)

    async def _write_failure(self, store: Store) -> BreakerRow | None:
        return await store.breakers.record_failure(self._name, self._services.owner_id, self._pause_seconds)

    async def _write_recovery(self, store: Store) -> BreakerRow | None:
        await store.breakers.record_recovery(self._name)
        return None

    async def _write_lost_probe(self, store: Store) -> BreakerRow | None:
        await store.breakers.release_probe(self._name, self._services.owner_id)
        return None
