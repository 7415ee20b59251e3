"""Runtime store: the store that one runtime uses, and the id under which it owns calls there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from surehand.core.call import Principal
from surehand.core.clock import Clock
from surehand.core.ids import new_id
from surehand.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from surehand.store.store import Store


class Recovery(Protocol):
    """Takes over what runtimes that died have left in the store. `StoreMaintenance` does."""

    async def recover_dead_runtimes(self) -> bool: ...


class RuntimeStore:
    """The configured store while the runtime is open, or one in memory, which is opened on first use."""

    def __init__(self, *, is_durable: bool, clock: Clock, on_first_use: Callable[[], None]) -> None:
        self.is_durable = is_durable
        """Whether a store was configured, so that calls survive this process."""
        self.owner_id = new_id()
        """The id under which this runtime claims calls and slots in the store."""
        self.current: Store | None = None
        self.recovery: Recovery | None = None
        """Set while this runtime maintains a configured store."""
        self._clock = clock
        self._on_first_use = on_first_use

    async def open(self) -> Store:
        """The configured store, or the one in memory."""
        if self.current is None:
            if self.is_durable:
                raise StoreUnavailable("The store is closed.")
            from surehand.store.store import Store  # keeps sqlite3 off the path of plain calls

            self.current = await Store.open(":memory:", now=self._clock.time)
            self._on_first_use()
        return self.current

    async def recover_dead_runtimes(self) -> bool:
        """Release the calls of dead runtimes; True if the effect of any is unknown."""
        return self.recovery is not None and await self.recovery.recover_dead_runtimes()

    async def has_grant(self, principal: Principal, grant_key: str) -> bool:
        """Whether the user has a standing approval, in this session, for what the key says."""
        store = self.current
        return store is not None and await store.grants.has(principal.user, grant_key, session=principal.session)

    async def is_runtime_alive(self, owner_id: str) -> bool:
        """Whether another runtime on the same store is alive."""
        if not self.is_durable or not owner_id:
            return False
        store = await self.open()
        return await store.owners.is_active(owner_id)
