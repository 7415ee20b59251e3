"""Owners: the runtimes that are at work on a store, and what is done for one that died."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surehand.store.database import Row, Statement, UnexpectedRowCount
from surehand.store.tables.ledger import LEDGER_COLUMNS, LedgerRow

if TYPE_CHECKING:
    from surehand.store.migrations import AnyDatabase

LEASE_SECONDS = 30.0
"""Seconds without a sign of life after which an owner that still holds its lock counts as gone."""

# `<> 'ended'`, though it says nothing new, is what lets SQLite use the index of calls that have not ended.
_JOIN = """INSERT INTO owners (owner, lease_until, started_at) VALUES (:owner, {now} + :lease, {now})
    ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until"""
_AT_WORK = "SELECT 1 FROM owners WHERE owner = :owner"
# Also those who claimed a call after they had been taken for gone, and died before they gave a sign of life.
_OTHERS = """SELECT owner, lease_until, lease_until < {now} AS late FROM owners WHERE owner <> :owner
    UNION ALL SELECT DISTINCT owner, 0.0, 1 = 0 FROM ledger
    WHERE state IN ('taken', 'running') AND state <> 'ended' AND owner <> :owner
    AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = ledger.owner)"""
_GONE = "DELETE FROM owners WHERE owner = :owner AND (lease_until < {now} OR CAST(:dead AS INTEGER) = 1)"
# Whoever does the same just now waits here, and then finds nothing left to tell.
_LOCKED = """UPDATE ledger SET owner = owner
    WHERE owner = :owner AND state IN ('taken', 'running') AND state <> 'ended'"""
_READY = """UPDATE ledger SET state = 'ready', owner = NULL, fence = fence + 1
    WHERE state = 'taken' AND state <> 'ended' AND owner = :owner RETURNING call_id"""
_UNKNOWN = f"""UPDATE ledger SET state = 'unknown', owner = NULL, fence = fence + 1
    WHERE state = 'running' AND state <> 'ended' AND owner = :owner RETURNING {LEDGER_COLUMNS}"""
_ASK = """INSERT INTO pending (call_id, round, waiting_for, message, request, note, state, created_at)
    SELECT ledger.call_id, (SELECT coalesce(max(round), 0) + 1 FROM pending WHERE pending.call_id = ledger.call_id),
    'result', 'It is not known whether ' || ledger.tool || ' has happened: its process died while it ran. '
        || 'Find out, then settle the call with what came of it.', '{"unknown_effect": true}', 'null', 'open', {now}
    FROM ledger WHERE ledger.state = 'unknown' AND ledger.state <> 'ended'
    AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id AND pending.state = 'open')"""
_TOLD = """INSERT INTO audit (tx, at, kind, call_id, tool, user_id, detail)
    SELECT {tx}, {now}, 'recovered', call_id, tool, user_id, '{"owner": "' || CAST(:owner AS TEXT) || '"}'
    FROM ledger WHERE owner = :owner AND state IN ('taken', 'running') AND state <> 'ended'"""
# What it held for the time that its calls ran: places in shared queues, and the one try whether a provider is back.
_LOCK = "UPDATE queues SET turns = turns + 1 WHERE queue IN (SELECT queue FROM slots WHERE owner = :owner)"
_FREE = "DELETE FROM slots WHERE owner = :owner"
_PROBE = "UPDATE breakers SET probed_by = NULL WHERE probed_by = :owner"


class OwnerTable:
    """Who is at work here. An owner that died is seen by its lock, one that is paused when its lease has ended."""

    def __init__(self, database: AnyDatabase) -> None:
        self._database = database
        self._late_leases: dict[str, tuple[float, float]] = {}
        """The leases of owners who are late, and since when they are."""

    async def join(self, owner: str) -> None:
        """Begin to work."""
        await self._database.acquire_owner_lock(owner)
        await self.renew(owner)

    async def renew(self, owner: str, extra_statements: Sequence[Statement] = ()) -> None:
        """Give a sign of life, and renew whatever else has a lease."""
        await self._database.write([Statement(_JOIN, {"owner": owner, "lease": LEASE_SECONDS}), *extra_statements])

    async def is_active(self, owner: str) -> bool:
        """Whether it has joined, and has neither left nor been found dead."""
        return bool(await self._database.read(_AT_WORK, {"owner": owner}))

    async def leave(self, owner: str) -> None:
        """Work no more; what was begun and not run is for others."""
        await self._release_owner(owner, is_dead=True)
        await self._database.release_owner_lock(owner)

    async def release_dead_owners(self, current_owner: str) -> list[LedgerRow]:
        """Give away what owners had begun who are gone; the calls of which nobody knows whether they happened."""
        rows = await self._database.read(_OTHERS, {"owner": current_owner})
        if not rows:
            return []
        alive = await self._database.live_owners([row["owner"] for row in rows])
        unknown: list[LedgerRow] = []
        for row in rows:
            if row["owner"] not in alive or self._is_paused(row):
                unknown += await self._release_owner(row["owner"], is_dead=row["owner"] not in alive)
        return unknown

    def _is_paused(self, row: Row) -> bool:
        """Late, and for long enough without a sign of life: when the clock jumps, all are late for a moment."""
        owner, now = row["owner"], time.monotonic()
        if not row["late"]:
            self._late_leases.pop(owner, None)
            return False
        lease, since = self._late_leases.setdefault(owner, (row["lease_until"], now))
        if lease != row["lease_until"]:
            self._late_leases[owner] = (row["lease_until"], now)
            return False
        return now - since > LEASE_SECONDS / 2

    async def _release_owner(self, owner: str, *, is_dead: bool) -> list[LedgerRow]:
        whose = {"owner": owner}
        self._late_leases.pop(owner, None)
        # One that is dead gives no sign of life any more: what it had begun can be given away twice without harm.
        gone = Statement(_GONE, {"owner": owner, "dead": int(is_dead)}, expect=None if is_dead else 1)
        calls = [Statement(sql, whose) for sql in (_LOCKED, _TOLD, _READY, _UNKNOWN)]
        held = [Statement(sql, whose) for sql in (_LOCK, _FREE, _PROBE)]
        try:
            results = await self._database.write([gone, *calls, Statement(_ASK), *held])
        except UnexpectedRowCount:  # somebody else did it, or it gave a sign of life after all
            return []
        return [LedgerRow.from_row(row) for row in results[4]]
