"""The table `owners`: the runtimes that use a store, and the recovery of the calls of one that died."""

from __future__ import annotations

import time
from collections.abc import Sequence

from surehand.store.database import Database, Row, Statement, UnexpectedRowCount
from surehand.store.queries import load_queries
from surehand.store.tables.ledger import LedgerRow

LEASE_SECONDS = 30.0
"""An owner that still holds its lock counts as gone if it does not renew its lease for this long."""

_SQL = load_queries("owners")


class OwnerTable:
    """Active runtimes. A dead one is recognised by its free lock, a paused one by its expired lease."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._late_leases: dict[str, tuple[float, float]] = {}
        """The expired leases of owners, and when (monotonic time) this process first saw each."""

    async def join(self, owner: str) -> None:
        """Take the owner's lock and its first lease."""
        # The lock first: others take an owner with a row and without a lock for dead.
        await self._database.acquire_owner_lock(owner)
        await self.renew(owner)

    async def renew(self, owner: str, extra_statements: Sequence[Statement] = ()) -> None:
        """Renew the owner's lease, together with the other leases in `extra_statements`."""
        renewal = Statement(_SQL["renew_lease"], {"owner": owner, "lease": LEASE_SECONDS})
        await self._database.write([renewal, *extra_statements])

    async def is_active(self, owner: str) -> bool:
        """Return whether an owner has joined, and has neither left nor been found dead."""
        return bool(await self._database.read(_SQL["find_owner"], {"owner": owner}))

    async def leave(self, owner: str) -> None:
        """Release the owner's lock, and let others resume the calls that it has taken but not run."""
        await self._release_owner(owner, is_dead=True)
        await self._database.release_owner_lock(owner)  # last, for the same reason

    async def release_dead_owners(self, current_owner: str) -> list[LedgerRow]:
        """Release the calls of owners that are gone; returns those whose effect is now unknown."""
        rows = await self._database.read(_SQL["list_other_owners"], {"owner": current_owner})
        if not rows:
            return []
        live = await self._database.live_owners([row["owner"] for row in rows])
        unknown: list[LedgerRow] = []
        for row in rows:
            is_dead = row["owner"] not in live
            if is_dead or self._is_paused(row):
                unknown += await self._release_owner(row["owner"], is_dead=is_dead)
        return unknown

    def _is_paused(self, row: Row) -> bool:
        """Return whether an owner's lease has been expired for long enough."""
        # A clock that jumps makes every lease look expired at once, so the lease must also stay unrenewed for a while
        # by this process's monotonic clock.
        owner = row["owner"]
        now = time.monotonic()
        if not row["is_late"]:
            self._late_leases.pop(owner, None)
            return False
        lease, seen_at = self._late_leases.setdefault(owner, (row["lease_until"], now))
        if lease != row["lease_until"]:
            self._late_leases[owner] = (row["lease_until"], now)
            return False
        return now - seen_at > LEASE_SECONDS / 2

    async def _release_owner(self, owner: str, *, is_dead: bool) -> list[LedgerRow]:
        """Delete an owner and release everything it held; returns its calls of unknown effect."""
        self._late_leases.pop(owner, None)
        params = {"owner": owner}
        # A dead owner never renews: releasing it twice does no harm. A paused one may have renewed in the meantime.
        delete = Statement(_SQL["delete_owner"], {"owner": owner, "dead": int(is_dead)}, expect=None if is_dead else 1)
        mark_unknown = Statement(_SQL["mark_running_calls_unknown"], params)
        statements = [
            delete,
            Statement(_SQL["lock_claimed_calls"], params),
            Statement(_SQL["audit_recovery"], params),
            Statement(_SQL["return_taken_calls"], params),
            mark_unknown,
            Statement(_SQL["journal_unknown_calls"]),
            Statement(_SQL["ask_about_unknown_calls"]),
            Statement(_SQL["lock_queues_of_owner"], params),
            Statement(_SQL["delete_slots_of_owner"], params),
            Statement(_SQL["release_probes_of_owner"], params),
            Statement(_SQL["release_runs_of_owner"], params),
        ]
        try:
            results = await self._database.write(statements)
        except UnexpectedRowCount:  # another runtime released it first, or it has renewed its lease
            return []
        return [LedgerRow.from_row(row) for row in results[statements.index(mark_unknown)]]
