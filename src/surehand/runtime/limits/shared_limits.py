"""Shared limits: what the store maintenance does for queues and breakers that several processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.catalogue.catalogue import Catalogue
from surehand.runtime.limits.breaker_table import ProviderBreakers
from surehand.runtime.limits.queue_table import QueueTable
from surehand.store.tables import breakers, slots
from surehand.store.tables.breakers import BreakerRow

if TYPE_CHECKING:
    from surehand.store.store import Store

BREAKER_RETENTION_SECONDS = 86_400.0
"""Rows of breakers that did not change for this long are deleted."""


class SharedLimits:
    """Renews the leases of slots and probes with the runtime's own, and reads what other processes wrote."""

    def __init__(
        self, queues: QueueTable, breakers: ProviderBreakers, *, catalogue: Catalogue, store: Store, owner_id: str
    ) -> None:
        self._queues = queues
        self._breakers = breakers
        self._catalogue = catalogue
        self._store = store
        self._owner_id = owner_id

    def open_queues(self) -> None:
        """Connect the shared queues to the store."""
        for queue in self._queues.shared_queues.values():
            queue.open(self._store)

    async def load_breakers(self) -> None:
        """Load the breakers' state, so that a provider known to be down is not called."""
        for listing in self._catalogue:
            if listing.provider is not None and not listing.abilities.traits.tracks_own_health:
                self._breakers.breaker_for(listing.provider)
        await self.sync_breakers()

    async def renew_leases(self) -> None:
        """Renew the leases of the runtime, its slots and its probes in one write."""
        owner_id = self._owner_id
        shared_queues = self._queues.shared_queues
        statements = slots.renew_lease_statements(owner_id, sorted(shared_queues)) if shared_queues else []
        if any(breaker.is_probing for breaker in self._breakers.shared.values()):
            statements.append(breakers.renew_probe_statement(owner_id))
        await self._store.owners.renew(owner_id, statements)

    async def update_slot_counts(self) -> None:
        """Update how many slots of each shared queue are in use, over all processes."""
        if self._queues.shared_queues:
            in_use = await self._store.slots.slots_in_use()
            for name, queue in self._queues.shared_queues.items():
                queue.update_total_in_use(in_use.get(name, 0))

    async def sync_breakers(self) -> None:
        """Write the updates of the breakers, and load what other processes wrote."""
        shared = self._breakers.shared
        if not shared:
            return
        for breaker in [breaker for breaker in shared.values() if breaker.has_unwritten_updates]:
            await breaker.write_updates()
        counts = {name: breaker.change_count for name, breaker in shared.items() if not breaker.has_unwritten_updates}
        rows = await self._store.breakers.all()
        for name, count in counts.items():
            # A breaker that changed during the read knows more than the row.
            if shared[name].change_count == count and not shared[name].is_probing:
                shared[name].load_health(rows.get(name, BreakerRow()))

    async def prune(self) -> None:
        """Delete abandoned slots and old breaker rows."""
        if self._queues.shared_queues:
            await self._store.slots.delete_abandoned()
        if self._breakers.shared:
            await self._store.breakers.delete_older_than(BREAKER_RETENTION_SECONDS)
