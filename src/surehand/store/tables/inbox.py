"""The table `inbox`: events for the next cycle of an agent, in order of arrival, each delivered once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.core.call import CallIdentity
from surehand.store.database import Database, Row, Statement
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json
from surehand.store.stored_identity import whose_call

InboxItemType: TypeAlias = Literal["tool_result", "space_message", "plan", "service"]

MAX_ATTEMPTS = 5
"""How often an event is taken before it counts as failed."""

_SQL = load_queries("inbox")


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
    """How often the event was taken, this time included."""


class InboxTable:
    """Pushes events to agents; takes, drains and counts the waiting ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def push_statement(self, agent: str, event_id: str, type: InboxItemType, data: JSON) -> Statement:
        """Build the statement that pushes an event; it returns no row if the agent already has the event."""
        params = {"agent": agent, "event_id": event_id, "type": type, "data": dump_json(data)}
        return Statement(_SQL["push_item"], params)

    async def push(self, agent: str, event_id: str, type: InboxItemType, data: JSON) -> bool:
        """Push an event; returns False if the agent already has it."""
        [added] = await self._database.write([self.push_statement(agent, event_id, type, data)])
        return bool(added)

    async def take(self, agent: str, *, limit: int = 100, owner: str | None = None) -> list[InboxItem]:
        """Take the oldest waiting events for this owner alone; the list is empty only if none wait."""
        take = Statement(_SQL["take_items"], {"agent": agent, "owner": owner, "limit": limit})
        count = Statement(_SQL["count_waiting"], {"agent": agent})
        while limit > 0:
            taken, [left] = await self._database.write([take, count])
            if taken or not left["waiting"]:  # else another owner took the same events first: try the next ones
                return _items_from_rows(taken)
        return []

    async def mark_done(self, ids: Iterable[int]) -> int:
        """Mark events as processed; returns how many of them were being processed."""
        results = await self._database.write([Statement(_SQL["mark_done"], {"id": id}) for id in sorted(ids)])
        return sum(map(len, results))

    async def mark_failed(self, id: int) -> bool:
        """Record that processing failed; returns whether the event waits for another attempt."""
        [returned] = await self._database.write([Statement(_SQL["mark_failed"], {"id": id, "most": MAX_ATTEMPTS})])
        return any(row["state"] == "pending" for row in returned)

    async def return_from_dead_owners(self, owners: Collection[str]) -> int:
        """Return the events that dead owners were processing, as failed attempts; returns their number."""
        statements = [
            Statement(_SQL["return_items_of_owner"], {"owner": owner, "most": MAX_ATTEMPTS}) for owner in sorted(owners)
        ]
        return sum(map(len, await self._database.write(statements)))

    async def drain(self, agent: str) -> list[InboxItem]:
        """Take all waiting events and mark them as processed."""
        [rows] = await self._database.write([Statement(_SQL["drain_items"], {"agent": agent})])
        return _items_from_rows(rows)

    async def peek(self, agent: str, limit: int = 100) -> list[InboxItem]:
        """Read the oldest waiting events without taking them."""
        rows = await self._database.read(_SQL["list_waiting"], {"agent": agent, "limit": max(limit, 0)})
        return _items_from_rows(rows)

    async def count(self, agent: str) -> int:
        """Count the waiting events."""
        [row] = await self._database.read(_SQL["count_waiting"], {"agent": agent})
        return int(row["waiting"])


def tool_result_event(
    call_id: str, tool: str, run: str | None, result: JSON, identity: CallIdentity | None = None
) -> tuple[str, InboxItemType, dict[str, Any]]:
    """Build the event with the result of a call: its id, type and data, which says whose call it was."""
    data = {"toolCallId": call_id, "toolName": tool, "originRunId": run, "result": result}
    if identity is not None:
        data = {**whose_call(identity), **data}
    return f"tr:{call_id}", "tool_result", data


def _items_from_rows(rows: list[Row]) -> list[InboxItem]:
    items = [InboxItem(**{**row, "data": json.loads(row["data"])}) for row in rows]
    return sorted(items, key=lambda item: item.id)
