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
from surehand.runtime.breaker import Breaker
from surehand.store.breakers import Health
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store

log = logging.getLogger("surehand")
AGAIN = 0.25
"""Seconds before a call asks again whether it may try a provider that another process tries."""
MOST = 1_000
"""What was learned while the store was away, and is still to be written."""


class SharedBreaker(Breaker):
    """Local like any other between two looks at the store."""

    def __init__(self, name: str, parts: Parts) -> None:
        limits = parts.defaults
        super().__init__(parts.clock, limits.breaker_failures, limits.breaker_pause)
        self._name, self._parts = name, parts
        self._notes: list[Callable[[Store], Awaitable[Health | None]]] = []
        self._writing = False
        self.changes = 0
        """Grows with all that is learned here: what was read before says nothing new."""

    @property
    def probing(self) -> bool:
        """Whether a call of this process tries the provider."""
        return self._probing

    def due(self) -> bool:
        """Whether the next call would be the one that tries."""
        return self.open and not self._probing and self._until <= self._clock.now()

    async def probe(self) -> float | None:
        """Ask all processes to be the one that tries: None if so, or if the provider is well, else seconds to wait."""
        self._probing = True
        try:
            store = await self._parts.remembered()
            found = await store.breakers.probe(self._name, self._parts.owner, self._pause)
        except StoreError as error:
            log.warning("Whether another process tries %s is not known: %s", self._name, error)
            return None
        except asyncio.CancelledError:
            self._note(self._lost)
            raise
        finally:
            self._probing = False
        return None if found is None else self._refused(found)

    def _refused(self, found: Health) -> float | None:
        self.learn(found)
        if not self.open:
            return None
        self._until = max(self._until, self._clock.now() + AGAIN)
        return self._until - self._clock.now()

    def count(self, outcome: Outcome) -> None:
        """Learn from a call that went through, and let the others know."""
        knew = self._failures > 0
        super().count(outcome)
        if self._failures:
            self._note(self._failed)
        elif knew:
            self._note(self._recovered)

    def probe_lost(self) -> None:
        """The call that tried came to nothing: another may try."""
        if self._probing:
            self._note(self._lost)
        super().probe_lost()

    def learn(self, health: Health) -> None:
        """What the store says."""
        self._failures = health.failures
        # The clock of the database may have been set back since.
        self._until = self._clock.now() + min(health.pause, self._pause)

    def _note(self, what: Callable[[Store], Awaitable[Health | None]]) -> None:
        self.changes += 1
        if len(self._notes) < MOST:
            self._notes.append(what)
        if not self._writing and self._parts.open:
            _ = self._parts.reaper.own(self.write())

    async def write(self) -> None:
        """Let the others know what was learned here, in order. What cannot be written now is tried at the next beat."""
        if self._writing:
            return
        self._writing = True
        try:
            store = await self._parts.remembered()
            while self._notes:
                health = await self._notes[0](store)
                del self._notes[0]
                self.changes += 1
                if health is not None and not self._notes:
                    self.learn(health)
        except StoreError as error:
            log.warning("The health of %s could not be written: %s", self._name, error)
        finally:
            self._writing = False

    @property
    def unwritten(self) -> bool:
        """Whether the others do not know yet what was learned here."""
        return bool(self._notes)

    async def _failed(self, store: Store) -> Health | None:
        return await store.breakers.failed(self._name, self._parts.owner, self._pause)

    async def _recovered(self, store: Store) -> Health | None:
        await store.breakers.recovered(self._name)
        return None

    async def _lost(self, store: Store) -> Health | None:
        await store.breakers.probe_lost(self._name, self._parts.owner)
        return None
