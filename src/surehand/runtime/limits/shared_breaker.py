"""Shared breaker: a circuit breaker whose state all processes on a store share.

A call only looks at the state in memory, and needs no read. Failures and recoveries are written, the store maintenance
loads what other processes wrote, and of all processes one call at a time probes a provider that was down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from surehand.core.clock import Clock
from surehand.core.outcome import Outcome
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.breaker import Breaker
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.errors import StoreError
from surehand.store.tables.breakers import BreakerRow

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
PROBE_RETRY_SECONDS = 0.25
"""Seconds before the next attempt to claim a probe that another process holds."""
MAX_UNWRITTEN_UPDATES = 1_000
"""Limit on updates that are kept while the store is unavailable."""


class SharedBreaker(Breaker):
    """A breaker that is synchronised with the store in the background."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        defaults: Defaults,
        *,
        store: RuntimeStore,
        running: RunningCalls,
        background_tasks: BackgroundTasks,
    ) -> None:
        super().__init__(clock, defaults.breaker_failures, defaults.breaker_pause)
        self._name = name
        self._store = store
        self._running = running
        self._background_tasks = background_tasks
        self._unwritten_updates: list[Callable[[Store], Awaitable[BreakerRow | None]]] = []
        self._is_writing = False
        self.change_count = 0
        """Grows with every local change, so that a row that was read before the change is ignored."""

    @property
    def is_probing(self) -> bool:
        """Whether a call of this process is probing the provider."""
        return self._is_probing

    def is_probe_due(self) -> bool:
        """Whether the next call would be the probe."""
        return self.is_open and not self._is_probing and self._retry_at <= self._clock.now()

    async def claim_probe(self) -> float | None:
        """Claim the probe for this process: None if a call may pass, else the seconds to wait."""
        self._is_probing = True
        try:
            store = await self._store.open()
            refusal = await store.breakers.claim_probe(self._name, self._store.owner_id, self._pause_seconds)
        except StoreError as error:
            log.warning(
                "The probe of provider %s could not be claimed in the store; it is called anyway: %s", self._name, error
            )
            return None
        except asyncio.CancelledError:
            self._queue_update(self._write_lost_probe)
            raise
        finally:
            self._is_probing = False
        return None if refusal is None else self._probe_refused(refusal)

    def _probe_refused(self, health: BreakerRow) -> float | None:
        self.load_health(health)
        if not self.is_open:
            return None
        self._retry_at = max(self._retry_at, self._clock.now() + PROBE_RETRY_SECONDS)
        return self._retry_at - self._clock.now()

    def record_outcome(self, outcome: Outcome) -> None:
        """Count the outcome of a call that reached the provider, and share it with the other processes."""
        had_failures = self._failure_count > 0
        super().record_outcome(outcome)
        if self._failure_count:
            self._queue_update(self._write_failure)
        elif had_failures:
            self._queue_update(self._write_recovery)

    def release_probe(self) -> None:
        """Let another call probe, in any process: the last one did not reach the provider."""
        if self._is_probing:
            self._queue_update(self._write_lost_probe)
        super().release_probe()

    def load_health(self, health: BreakerRow) -> None:
        """Take over the state that the store has."""
        self._failure_count = health.failures
        # At most the usual pause: the clock of the database may have been set back.
        self._retry_at = self._clock.now() + min(health.retry_in_seconds, self._pause_seconds)

    def _queue_update(self, update: Callable[[Store], Awaitable[BreakerRow | None]]) -> None:
        self.change_count += 1
        if len(self._unwritten_updates) < MAX_UNWRITTEN_UPDATES:
            self._unwritten_updates.append(update)
        if not self._is_writing and self._running.is_open:
            _ = self._background_tasks.spawn(self.write_updates())

    async def write_updates(self) -> None:
        """Write the local changes in order; those that fail are written in the next maintenance round."""
        if self._is_writing:
            return
        self._is_writing = True
        try:
            store = await self._store.open()
            while self._unwritten_updates:
                health = await self._unwritten_updates[0](store)
                del self._unwritten_updates[0]
                self.change_count += 1
                if health is not None and not self._unwritten_updates:
                    self.load_health(health)
        except StoreError as error:
            log.warning("The breaker state of provider %s could not be written: %s", self._name, error)
        finally:
            self._is_writing = False

    @property
    def has_unwritten_updates(self) -> bool:
        """Whether local changes are not in the store yet."""
        return bool(self._unwritten_updates)

    async def _write_failure(self, store: Store) -> BreakerRow | None:
        return await store.breakers.record_failure(self._name, self._store.owner_id, self._pause_seconds)

    async def _write_recovery(self, store: Store) -> BreakerRow | None:
        await store.breakers.record_recovery(self._name)
        return None

    async def _write_lost_probe(self, store: Store) -> BreakerRow | None:
        await store.breakers.release_probe(self._name, self._store.owner_id)
        return None
