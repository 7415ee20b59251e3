"""Inbox: what waits for an agent's next cycle, first come first served, each event once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.store.database import Database, Row, Statement
from surehand.store.serialization import JSON, dump_json

InboxItemType: TypeAlias = Literal["tool_result", "space_message", "plan", "service"]

MAX_ATTEMPTS = 5
"""How often an event is taken before it counts as failed."""

_ITEM = "id, agent, event_id, type, data, created_at, attempts"
_WAITING = "agent = :agent AND state = 'pending'"
_PUSH = """INSERT INTO inbox (agent, event_id, type, data, state, attempts, created_at)
    VALUES (:agent, :event_id, :type, :data, 'pending', 0, {now})
    ON CONFLICT (agent, event_id) DO NOTHING RETURNING id"""
# Takers that meet lock the rows in the same order, and whoever comes second finds them no longer pending.
_TAKE = f"""UPDATE inbox SET state = 'processing', owner = :owner, attempts = attempts + 1, taken_at = {{now}}
    WHERE {_WAITING} AND id <= (SELECT max(id) FROM
        (SELECT id FROM inbox WHERE {_WAITING} ORDER BY id LIMIT :limit) AS oldest) RETURNING {_ITEM}"""
_DRAIN = f"""UPDATE inbox SET state = 'processed', attempts = attempts + 1, taken_at = {{now}}, ended_at = {{now}}
    WHERE {_WAITING} RETURNING {_ITEM}"""
_DONE = "UPDATE inbox SET state = 'processed', ended_at = {now} WHERE id = :id AND state = 'processing' RETURNING id"
_GIVE_BACK = """UPDATE inbox SET state = CASE WHEN attempts < :most THEN 'pending' ELSE 'failed' END, owner = NULL,
    ended_at = CASE WHEN attempts < :most THEN NULL ELSE {now} END WHERE state = 'processing' AND """
_PEEK = f"SELECT {_ITEM} FROM inbox WHERE {_WAITING} ORDER BY id LIMIT :limit"
_COUNT = f"SELECT count(*) AS waiting FROM inbox WHERE {_WAITING}"


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An event for an agent."""

    id: int
    agent: str
    event_id: str
    type: InboxItemType
    data: JSON
    created_at: float
    attempts: int
    """How often it was taken, this time included."""


class InboxTable:
    """Events by agent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def push_statement(self, agent: str, event_id: str, type: InboxItemType, data: JSON) -> Statement:
        """An event, to be put into a transaction; it returns no row if the event is known already."""
        return Statement(_PUSH, {"agent": agent, "event_id": event_id, "type": type, "data": dump_json(data)})

    async def push(self, agent: str, event_id: str, type: InboxItemType, data: JSON) -> bool:
        """Add an event; false if it is known already."""
        [added] = await self._database.write([self.push_statement(agent, event_id, type, data)])
        return bool(added)

    async def take(self, agent: str, *, limit: int = 100, owner: str | None = None) -> list[InboxItem]:
        """The oldest that wait, each for one taker alone; none only if none wait."""
        take = Statement(_TAKE, {"agent": agent, "owner": owner, "limit": limit})
        while limit > 0:
            taken, [left] = await self._database.write([take, Statement(_COUNT, {"agent": agent})])
            if taken or not left["waiting"]:  # else another taker was first, and the next ones are free
                return _items_from_rows(taken)
        return []

    async def mark_done(self, ids: Iterable[int]) -> int:
        """These were dealt with; gives how many of them were being processed."""
        results = await self._database.write([Statement(_DONE, {"id": id}) for id in sorted(ids)])
        return sum(map(len, results))

    async def mark_failed(self, id: int) -> bool:
        """This could not be dealt with; whether it waits for another attempt."""
        give_back = Statement(f"{_GIVE_BACK} id = :id RETURNING state", {"id": id, "most": MAX_ATTEMPTS})
        [given] = await self._database.write([give_back])
        return any(row["state"] == "pending" for row in given)

    async def return_from_dead_owners(self, owners: Collection[str]) -> int:
        """Take from dead owners what they were at, as a failed attempt; gives how many events that were."""
        give_back = f"{_GIVE_BACK} owner = :owner RETURNING state"
        dead = [Statement(give_back, {"owner": owner, "most": MAX_ATTEMPTS}) for owner in sorted(owners)]
        return sum(map(len, await self._database.write(dead)))

    async def drain(self, agent: str) -> list[InboxItem]:
        """All that wait, dealt with by being read."""
        [rows] = await self._database.write([Statement(_DRAIN, {"agent": agent})])
        return _items_from_rows(rows)

    async def peek(self, agent: str, limit: int = 100) -> list[InboxItem]:
        """The oldest that wait, left where they are."""
        return _items_from_rows(await self._database.read(_PEEK, {"agent": agent, "limit": max(limit, 0)}))

    async def count(self, agent: str) -> int:
        """How many wait."""
        [row] = await self._database.read(_COUNT, {"agent": agent})
        return int(row["waiting"])


def tool_result_event(
    call_id: str, tool: str, run: str | None, result: JSON
) -> tuple[str, InboxItemType, dict[str, Any]]:
    """The event that tells an agent what came of a call: its id, type and data."""
    data = {"toolCallId": call_id, "toolName": tool, "originRunId": run, "result": result}
    return f"tr:{call_id}", "tool_result", data


def _items_from_rows(rows: list[Row]) -> list[InboxItem]:
    items = [InboxItem(**{**row, "data": json.loads(row["data"])}) for row in rows]
    return sorted(items, key=lambda item: item.id)
