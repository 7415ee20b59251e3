"""Shared limits: what the keeper does for queues and breakers that processes share; nothing where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.store import breakers, slots
from surehand.store.breakers import Health

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store

DAY = 86_400.0


class SharedLimits:
    """The leases of slots and probes go with the runtime's own; what others did is looked at from time to time."""

    def __init__(self, parts: Parts, store: Store) -> None:
        self._parts, self._store = parts, store

    def open(self) -> None:
        """The store is there."""
        for line in self._parts.lines.shared.values():
            line.open(self._store)

    async def begin(self) -> None:
        """Providers that are down for others are down from the first call on."""
        for listing in self._parts.catalogue:
            if listing.provider is not None and not listing.provider.keeps_health:
                self._parts.breaker_of(listing.provider)
        await self.look_at_breakers()

    async def renew(self) -> None:
        """A sign of life, for the runtime and all that it holds."""
        me = self._parts.owner
        also = slots.renewed(me, sorted(self._parts.lines.shared)) if self._parts.lines.shared else []
        if any(breaker.probing for breaker in self._parts.shared_breakers.values()):
            also.append(breakers.renewed(me))
        await self._store.owners.renew(me, also)

    async def look_at_slots(self) -> None:
        """How full the shared queues are, as all processes together fill them."""
        if self._parts.lines.shared:
            in_use = await self._store.slots.in_use()
            for name, line in self._parts.lines.shared.items():
                line.seen(in_use.get(name, 0))

    async def look_at_breakers(self) -> None:
        """What other processes know of providers. What is learned here meanwhile is newer."""
        if not (known := self._parts.shared_breakers):
            return
        for breaker in [breaker for breaker in known.values() if breaker.unwritten]:
            await breaker.write()
        before = {name: breaker.changes for name, breaker in known.items() if not breaker.unwritten}
        found = await self._store.breakers.all()
        for name, changes in before.items():
            if known[name].changes == changes and not known[name].probing:
                known[name].learn(found.get(name, Health()))

    async def forget(self) -> None:
        """Make room."""
        if self._parts.lines.shared:
            await self._store.slots.forget()
        if self._parts.shared_breakers:
            await self._store.breakers.forget(DAY)
