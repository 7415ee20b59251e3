"""Breaker table: the circuit breakers of a runtime's providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.core.clock import Clock
from surehand.core.provider import Provider
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.breaker import Breaker
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.runtime.limits.shared_breaker import SharedBreaker


class ProviderBreakers:
    """One breaker for each provider; with a configured store, all processes share it by its namespace."""

    def __init__(
        self,
        defaults: Defaults,
        clock: Clock,
        store: RuntimeStore,
        running: RunningCalls,
        background_tasks: BackgroundTasks,
    ) -> None:
        self._defaults = defaults
        self._clock = clock
        self._store = store
        self._running = running
        self._background_tasks = background_tasks
        self._breakers: dict[int, Breaker] = {}
        self.shared: dict[str, SharedBreaker] = {}
        """Breakers whose state all processes on the store share, by namespace."""

    def breaker_for(self, provider: Provider) -> Breaker:
        """The circuit breaker of one provider."""
        if (breaker := self._breakers.get(id(provider))) is not None:
            return breaker
        if self._store.is_durable and provider.namespace:
            breaker = self._shared_breaker_for(provider.namespace)
        else:
            breaker = Breaker(self._clock, self._defaults.breaker_failures, self._defaults.breaker_pause)
        self._breakers[id(provider)] = breaker
        return breaker

    def _shared_breaker_for(self, namespace: str) -> SharedBreaker:
        from surehand.runtime.limits.shared_breaker import SharedBreaker  # keeps the store tables off the import path

        if namespace not in self.shared:
            self.shared[namespace] = SharedBreaker(
                namespace,
                self._clock,
                self._defaults,
                store=self._store,
                running=self._running,
                background_tasks=self._background_tasks,
            )
        return self.shared[namespace]
