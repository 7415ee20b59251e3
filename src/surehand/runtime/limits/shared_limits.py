"""Shared limits: what the keeper does for queues and breakers that processes share; nothing where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.store.tables import breakers, slots
from surehand.store.tables.breakers import BreakerRow

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

BREAKER_RETENTION_SECONDS = 86_400.0


class SharedLimits:
    """The leases of slots and probes go with the runtime's own; what others did is looked at from time to time."""

    def __init__(self, services: RuntimeServices, store: Store) -> None:
        self._services, self._store = services, store

    def open_queues(self) -> None:
        """The store is there."""
        for line in self._services.queues.shared_queues.values():
            line.open(self._store)

    async def load_breakers(self) -> None:
        """Providers that are down for others are down from the first call on."""
        for listing in self._services.catalogue:
            if listing.provider is not None and not listing.provider.tracks_own_health:
                self._services.breaker_for(listing.provider)
        await self.sync_breakers()

    async def renew_leases(self) -> None:
        """A sign of life, for the runtime and all that it holds."""
        me = self._services.owner_id
        also = (
            slots.renew_lease_statements(me, sorted(self._services.queues.shared_queues))
            if self._services.queues.shared_queues
            else []
        )
        if any(breaker.is_probing for breaker in self._services.shared_breakers.values()):
            also.append(breakers.renew_probe_statement(me))
        await self._store.owners.renew(me, also)

    async def update_slot_counts(self) -> None:
        """How full the shared queues are, as all processes together fill them."""
        if self._services.queues.shared_queues:
            in_use = await self._store.slots.slots_in_use()
            for name, line in self._services.queues.shared_queues.items():
                line.update_total_in_use(in_use.get(name, 0))

    async def sync_breakers(self) -> None:
        """What other processes know of providers. What is learned here meanwhile is newer."""
        if not (known := self._services.shared_breakers):
            return
        for breaker in [breaker for breaker in known.values() if breaker.has_unwritten_updates]:
            await breaker.write_updates()
        before = {name: breaker.change_count for name, breaker in known.items() if not breaker.has_unwritten_updates}
        found = await self._store.breakers.all()
        for name, changes in before.items():
            if known[name].change_count == changes and not known[name].is_probing:
                known[name].load_health(found.get(name, BreakerRow()))

    async def prune(self) -> None:
        """Make room."""
        if self._services.queues.shared_queues:
            await self._store.slots.delete_abandoned()
        if self._services.shared_breakers:
            await self._store.breakers.delete_older_than(BREAKER_RETENTION_SECONDS)
