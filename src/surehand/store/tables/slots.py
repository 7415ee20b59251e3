"""The tables `queues`, `slots` and `starts`: queues that several processes share.

Every change locks the row of its queue first, so that one process at a time gives out or returns slots. The database
counts, and every time is the database's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from surehand.core.ids import new_id
from surehand.store.database import Database, Statement
from surehand.store.queries import load_queries
from surehand.store.tables import owners

RESERVATION_SECONDS = 0.5
"""How long one free slot is reserved for an owner that found none, unless it asks again."""
UNLIMITED_SLOTS = 1 << 31

_SQL = load_queries("slots")


class SharedQueueLimit(NamedTuple):
    """The limits of a shared queue: slots held at once, and starts within a period."""

    queue: str
    max_slots: int | None
    max_starts: int = 0
    """0: no rate limit."""
    period_seconds: float = 0.0


class SlotAllocation(NamedTuple):
    """The result of asking a shared queue for slots."""

    slot_ids: list[str]
    start_count: int
    """How many calls without a slot may start."""
    has_other_waiter: bool
    """Whether the next free slot is reserved for another owner."""


class SharedQueueSnapshot(NamedTuple):
    """The state of a shared queue at one moment."""

    in_use: int
    has_room: bool
    has_other_waiter: bool
    """Whether the next free slot is reserved for another owner."""
    reserved_seconds: float
    """How long a slot is still reserved for this owner."""
    next_start_seconds: float
    """Seconds until the rate allows another start."""


class SlotTable:
    """Gives out and takes back slots under the lock of their queue; the owner of a slot renews its lease."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def allocate(
        self,
        limit: SharedQueueLimit,
        owner: str,
        *,
        returned_slot_ids: Sequence[str] = (),
        new_slot_ids: Sequence[str] = (),
        start_count: int = 0,
        wants_reservation: bool = False,
    ) -> SlotAllocation:
        """Return slots, start calls that need none, and take a slot for each new id, as far as the limits allow."""
        # First: it changes the row of the queue, which stays locked until the transaction ends.
        lock = Statement(
            _SQL["lock_queue"],
            {
                "queue": limit.queue,
                "owner": owner,
                "reservation_seconds": RESERVATION_SECONDS,
                "wants": int(wants_reservation),
            },
        )
        returns = [Statement(_SQL["return_slot"], {"slot_id": slot_id}) for slot_id in returned_slot_ids]
        takes = _take_statements(limit, owner, new_slot_ids, start_count)
        locked, *results = await self._database.write([lock, *returns, *takes])
        taken_rows = [row for rows in results[len(returns) :] for row in rows]
        slot_ids = [row["slot_id"] for row in taken_rows if "slot_id" in row]
        has_other_waiter = locked[0]["wanted_by"] not in (None, owner)
        return SlotAllocation(slot_ids, len(taken_rows) - len(slot_ids), has_other_waiter)

    async def snapshot(self, limit: SharedQueueLimit, owner: str) -> SharedQueueSnapshot:
        """Read the state of a queue without locking it, to see whether `allocate` is worth a try."""
        query = "read_unrated_queue"
        params: dict[str, Any] = {"queue": limit.queue, "owner": owner, "reservation_seconds": RESERVATION_SECONDS}
        if limit.max_starts:
            query = "read_rated_queue"
            params |= {"period": limit.period_seconds, "nth": limit.max_starts - 1}
        [(in_use, wanted, reserved, next_start)] = await self._database.quick_read(_SQL[query], params)
        has_room = in_use + wanted < (limit.max_slots or UNLIMITED_SLOTS)
        return SharedQueueSnapshot(in_use, has_room, bool(wanted), reserved or 0.0, next_start or 0.0)

    async def slots_in_use(self) -> dict[str, int]:
        """Count the held slots of each queue, over all processes."""
        return {row["queue"]: int(row["in_use"]) for row in await self._database.read(_SQL["count_slots_in_use"])}

    async def announce(self) -> None:
        """Notify other processes that slots may be free."""
        await self._database.write([Statement("{announce}")])

    async def delete_abandoned(self) -> None:
        """Delete slots whose owner is unknown and whose lease ended long ago."""
        await self._database.write([Statement(_SQL["delete_abandoned_slots"], {"age": 10 * owners.LEASE_SECONDS})])


def _take_statements(
    limit: SharedQueueLimit, owner: str, new_slot_ids: Sequence[str], start_count: int
) -> list[Statement]:
    """Build the statements that start calls without a slot, and then take the slots."""
    if limit.max_starts:
        return _take_rated_statements(limit, owner, new_slot_ids, start_count)
    params = _slot_params(limit, owner)
    return [Statement(_SQL["take_slot_of_unrated_queue"], {**params, "slot_id": slot_id}) for slot_id in new_slot_ids]


def _take_rated_statements(
    limit: SharedQueueLimit, owner: str, new_slot_ids: Sequence[str], start_count: int
) -> list[Statement]:
    queue = {"queue": limit.queue}
    rate: dict[str, Any] = {"period": limit.period_seconds, "rate": limit.max_starts}
    statements = [Statement(_SQL["delete_old_starts"], {**queue, "period": limit.period_seconds})]
    statements += [Statement(_SQL["start_without_slot"], {**queue, **rate})] * start_count
    params = _slot_params(limit, owner)
    for slot_id in new_slot_ids:
        statements.append(Statement(_SQL["take_slot_of_rated_queue"], {**params, **rate, "slot_id": slot_id}))
        statements.append(Statement(_SQL["record_start_of_slot"], {**queue, "slot_id": slot_id}))
    return statements


def _slot_params(limit: SharedQueueLimit, owner: str) -> dict[str, Any]:
    return {
        "queue": limit.queue,
        "owner": owner,
        "lease": owners.LEASE_SECONDS,
        "max_slots": limit.max_slots or UNLIMITED_SLOTS,
        "reservation_seconds": RESERVATION_SECONDS,
    }


def renew_lease_statements(owner: str, queues: Sequence[str]) -> list[Statement]:
    """Renew the leases of all slots of an owner; one that is late keeps its slots unless it was declared dead."""
    # Locks the queues first, like a process that returns several slots: on PostgreSQL the two would otherwise lock the
    # same slots in a different order, and deadlock.
    locks = [Statement(_SQL["touch_queue"], {"queue": queue}) for queue in queues]
    return [*locks, Statement(_SQL["renew_leases"], {"owner": owner, "lease": owners.LEASE_SECONDS})]


def generate_slot_ids(count: int) -> list[str]:
    """Generate ids for new slots."""
    return [new_id() for _ in range(count)]
