"""Slots: the places of queues that several processes share, and when calls have started there.

Whoever gives out or gives back locks the row of the queue first, so that one does so at a time. What is counted is
counted by the database, and every time is the database's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.tables import owners

if TYPE_CHECKING:
    from surehand.store.migrations import AnyDatabase

RESERVATION_SECONDS = 0.5
"""Seconds for which one free slot is kept for an owner who came in vain, unless it comes again."""
UNLIMITED_SLOTS = 1 << 31

# One who came in vain long ago, or before the clock was set back, is not waited for.
_LIVE = "queues.wanted_until BETWEEN {now} AND {now} + :patience"
_LOCK = f"""INSERT INTO queues (queue, turns) VALUES (:queue, 1)
    ON CONFLICT (queue) DO UPDATE SET turns = queues.turns + 1,
    wanted_until = CASE WHEN queues.wanted_by <> :owner AND {_LIVE} THEN queues.wanted_until
        ELSE {{now}} + :patience END,
    wanted_by = CASE WHEN queues.wanted_by <> :owner AND {_LIVE} THEN queues.wanted_by
        WHEN :wants = 1 THEN CAST(:owner AS TEXT) END
    RETURNING wanted_by"""
# A lease alone would free all slots at once when the clock jumps: whoever is late counts until it is taken for gone.
_HELD = "(lease_until > {now} OR EXISTS (SELECT 1 FROM owners WHERE owners.owner = slots.owner))"
_IN_USE = f"(SELECT count(*) FROM slots WHERE queue = :queue AND {_HELD})"
_WANTED = f"(SELECT count(*) FROM queues WHERE queue = :queue AND wanted_by <> :owner AND {_LIVE})"
_RECENT = "(SELECT count(*) FROM starts WHERE queue = :queue AND at > {now} - :period)"
_TAKE = f"""INSERT INTO slots (slot_id, queue, owner, lease_until)
    SELECT CAST(:slot_id AS TEXT), CAST(:queue AS TEXT), CAST(:owner AS TEXT), {{now}} + :lease
    WHERE {_IN_USE} + {_WANTED} < :most"""
_TAKE_PACED = f"{_TAKE} AND {_RECENT} < :rate RETURNING slot_id"
_TAKE_UNPACED = f"{_TAKE} RETURNING slot_id"
_STARTED = """INSERT INTO starts (queue, at) SELECT CAST(:queue AS TEXT), {now}
    WHERE EXISTS (SELECT 1 FROM slots WHERE slot_id = :slot_id)"""
_START = f"INSERT INTO starts (queue, at) SELECT CAST(:queue AS TEXT), {{now}} WHERE {_RECENT} < :rate RETURNING id"
_FORGET = """DELETE FROM starts WHERE queue = :queue AND (at <= {now} - :period OR at > {now} + :period)"""
_GIVE_BACK = "DELETE FROM slots WHERE slot_id = :slot_id"
_LOOK = f"""SELECT {_IN_USE} AS in_use, {_WANTED} AS wanted,
    (SELECT wanted_until - {{now}} FROM queues WHERE queue = :queue AND wanted_by = :owner) AS patience"""
_PAUSE = """(SELECT at + :period - {now} FROM starts WHERE queue = :queue AND at <= {now} + :period
    ORDER BY at DESC LIMIT 1 OFFSET :nth) AS pause"""
_TOUCH = "UPDATE queues SET turns = turns + 1 WHERE queue = :queue"
_RENEW = "UPDATE slots SET lease_until = {now} + :lease WHERE owner = :owner"
_COUNT = f"SELECT queue, count(*) AS in_use FROM slots WHERE {_HELD} GROUP BY queue"
_ABANDONED = f"DELETE FROM slots WHERE NOT {_HELD} AND lease_until < {{now}} - :age"


class SharedQueueLimit(NamedTuple):
    """What a shared queue allows: so many slots, and so many starts in a period."""

    queue: str
    max_slots: int | None
    max_starts: int = 0
    period_seconds: float = 0.0


class SlotAllocation(NamedTuple):
    """What came of one turn at a shared queue."""

    slot_ids: list[str]
    start_count: int
    has_other_waiter: bool
    """Whether another owner came in vain and waits."""


class SharedQueueSnapshot(NamedTuple):
    """A shared queue as it is at one moment."""

    in_use: int
    has_room: bool
    has_other_waiter: bool
    """Whether another owner waits, who comes first."""
    reserved_seconds: float
    """Seconds for which a slot is still kept for this owner."""
    next_start_seconds: float
    """Seconds until the rate lets another call start."""


class SlotTable:
    """Taken and given back under the lock of their queue; whoever holds one renews its lease."""

    def __init__(self, database: AnyDatabase) -> None:
        self._database = database

    async def allocate(
        self, limit: SharedQueueLimit, owner: str, *, returned_slot_ids: Sequence[str] = (), new_slot_ids: Sequence[str] = (), start_count: int = 0,
        wants_reservation: bool = False,
    ) -> SlotAllocation:  # fmt: skip
        """Give slots back, start calls that need none, and take a slot under each of the ids, while there are any."""
        lock = Statement(
            _LOCK,
            {"queue": limit.queue, "owner": owner, "patience": RESERVATION_SECONDS, "wants": int(wants_reservation)},
        )
        gives = [Statement(_GIVE_BACK, {"slot_id": slot_id}) for slot_id in returned_slot_ids]
        asks = _take_statements(limit, owner, new_slot_ids, start_count)
        results = await self._database.write([lock, *gives, *asks])
        given = [row for rows in results[1 + len(gives) :] for row in rows]
        taken = [row["slot_id"] for row in given if "slot_id" in row]
        return SlotAllocation(taken, len(given) - len(taken), results[0][0]["wanted_by"] not in (None, owner))

    async def snapshot(self, limit: SharedQueueLimit, owner: str) -> SharedQueueSnapshot:
        """Whether it is worth a turn: a look locks nothing."""
        params: dict[str, Any] = {"queue": limit.queue, "owner": owner, "patience": RESERVATION_SECONDS}
        sql = f"{_LOOK}, 0.0 AS pause"
        if limit.max_starts:
            sql, params = f"{_LOOK}, {_PAUSE}", {**params, "period": limit.period_seconds, "nth": limit.max_starts - 1}
        [(in_use, wanted, patience, pause)] = await self._database.quick_read(sql, params)
        room = in_use + wanted < (limit.max_slots or UNLIMITED_SLOTS)
        return SharedQueueSnapshot(in_use, room, bool(wanted), patience or 0.0, pause or 0.0)

    async def slots_in_use(self) -> dict[str, int]:
        """How many slots of each queue are held, in all processes."""
        return {row["queue"]: int(row["in_use"]) for row in await self._database.read(_COUNT)}

    async def announce(self) -> None:
        """Tell other processes to look."""
        await self._database.write([Statement("{announce}")])

    async def delete_abandoned(self) -> None:
        """Make room: slots whose owners nobody knows any more."""
        await self._database.write([Statement(_ABANDONED, {"age": 10 * owners.LEASE_SECONDS})])


def _take_statements(
    limit: SharedQueueLimit, owner: str, new_slot_ids: Sequence[str], start_count: int
) -> list[Statement]:
    queue = {"queue": limit.queue}
    paced: dict[str, Any] = {**queue, "period": limit.period_seconds, "rate": limit.max_starts}
    asks = [Statement(_FORGET, {**queue, "period": limit.period_seconds})] if limit.max_starts else []
    asks += [Statement(_START, paced)] * start_count
    for slot_id in new_slot_ids:
        params = {
            **(paced if limit.max_starts else queue),
            "slot_id": slot_id,
            "owner": owner,
            "lease": owners.LEASE_SECONDS,
        }
        take = _TAKE_PACED if limit.max_starts else _TAKE_UNPACED
        asks.append(
            Statement(take, {**params, "most": limit.max_slots or UNLIMITED_SLOTS, "patience": RESERVATION_SECONDS})
        )
        if limit.max_starts:
            asks.append(Statement(_STARTED, {**queue, "slot_id": slot_id}))
    return asks


def renew_lease_statements(owner: str, queues: Sequence[str]) -> list[Statement]:
    """A sign of life for all slots of an owner. One that was late has them still, unless it was taken for gone."""
    # Under the locks that whoever gives several back has too: PostgreSQL would let the two wait for each other.
    locks = [Statement(_TOUCH, {"queue": queue}) for queue in queues]
    return [*locks, Statement(_RENEW, {"owner": owner, "lease": owners.LEASE_SECONDS})]


def generate_slot_ids(count: int) -> list[str]:
    """Names for slots that are yet to be taken."""
    return [new_id() for _ in range(count)]
