"""The table `inbox`: events for the next cycle of an agent, in order of arrival, each delivered once.

An agent has one inbox for each user that it works for, and one for calls without a user. A host reads one of them (of
calls without a user: `user=""`), or, without `user`, all of an agent; each event says whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.core.call import CallIdentity
from surehand.store.database import Database, Row, SqlValue, Statement
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json
from surehand.store.stored_identity import identity_fields_with_user

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
    user: str | None = None
    """The user that the agent works for; None for calls without a user, and for messages of a space."""


class InboxTable:
    """Pushes events to agents; takes, drains and counts the waiting ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def push_statement(
        self, agent: str, event_id: str, type: InboxItemType, data: JSON, *, user: str | None = None
    ) -> Statement:
        """Build the statement that pushes an event; it returns no row if the inbox already has the event."""
        params = {"agent": agent, "user_id": user or "", "event_id": event_id, "type": type, "data": dump_json(data)}
        return Statement(_SQL["push_item"], params)

    async def push(
        self, agent: str, event_id: str, type: InboxItemType, data: JSON, *, user: str | None = None
    ) -> bool:
        """Push an event to an agent that works for a user; returns False if that inbox already has it."""
        [added] = await self._database.write([self.push_statement(agent, event_id, type, data, user=user)])
        return bool(added)

    async def inboxes(self) -> list[tuple[str, str | None]]:
        """The inboxes with waiting events, as agent and user, the one that has waited longest first."""
        rows = await self._database.read(_SQL["list_inboxes"])
        return [(row["agent"], row["user_id"] or None) for row in rows]

    async def take(
        self, agent: str, *, user: str | None = None, limit: int = 100, owner: str | None = None
    ) -> list[InboxItem]:
        """Take the oldest waiting events for this owner alone; the list is empty only if none wait."""
        take = Statement(_SQL["take_items"], {**_inbox_params(agent, user), "owner": owner, "limit": limit})
        count = Statement(_SQL["count_waiting"], _inbox_params(agent, user))
        while limit > 0:
            # One transaction, so that the count is what was left when this owner took its events.
            taken, [left] = await self._database.write([take, count])
            if taken or not left["waiting"]:  # else another owner took the same events first: try the next ones
                return _items_from_rows(taken)
        return []

    async def mark_done(self, ids: Iterable[int]) -> int:
        """Mark events as processed; returns how many of them were being processed."""
        # Sorted, so that two transactions lock the rows in the same order and cannot deadlock on PostgreSQL.
        results = await self._database.write([Statement(_SQL["mark_done"], {"id": id}) for id in sorted(ids)])
        return sum(map(len, results))

    async def mark_failed(self, id: int) -> bool:
        """Record that processing failed; returns whether the event waits for another attempt."""
        [returned] = await self._database.write(
            [Statement(_SQL["mark_failed"], {"id": id, "max_attempts": MAX_ATTEMPTS})]
        )
        return any(row["state"] == "pending" for row in returned)

    async def return_from_dead_owners(self, owners: Collection[str]) -> int:
        """Return the events that dead owners were processing, as failed attempts; returns their number."""
        statements = [
            Statement(_SQL["return_items_of_owner"], {"owner": owner, "max_attempts": MAX_ATTEMPTS})
            for owner in sorted(owners)
        ]
        return sum(map(len, await self._database.write(statements)))

    async def drain(self, agent: str, *, user: str | None = None) -> list[InboxItem]:
        """Take all waiting events and mark them as processed."""
        [rows] = await self._database.write([Statement(_SQL["drain_items"], _inbox_params(agent, user))])
        return _items_from_rows(rows)

    async def peek(self, agent: str, limit: int = 100, *, user: str | None = None) -> list[InboxItem]:
        """Read the oldest waiting events without taking them."""
        rows = await self._database.read(_SQL["list_waiting"], {**_inbox_params(agent, user), "limit": max(limit, 0)})
        return _items_from_rows(rows)

    async def count(self, agent: str, *, user: str | None = None) -> int:
        """Count the waiting events."""
        [row] = await self._database.read(_SQL["count_waiting"], _inbox_params(agent, user))
        return int(row["waiting"])

    async def take_for_call(
        self, agent: str, user: str | None, call_id: str, *, count: int, type: InboxItemType | None
    ) -> tuple[list[InboxItem], int]:
        """Take waiting events for a call, with messages of spaces; the same ones if the call is repeated.

        Returns the events, and how many wait after that.
        """
        params: dict[str, SqlValue] = {"agent": agent, "user_id": user or "", "call": call_id}
        rows = await self._database.read(_SQL["list_events_of_call"], params)
        if not rows:
            take = Statement(_SQL["take_events_for_call"], {**params, "count": count, "type": type})
            [rows] = await self._database.write([take])
        [left] = await self._database.read(_SQL["count_events_for_call"], {"agent": agent, "user_id": user or ""})
        return _items_from_rows(rows), int(left["waiting"])


def _inbox_params(agent: str, user: str | None) -> dict[str, SqlValue]:
    return {"agent": agent, "user_id": user}


def tool_result_event(
    call_id: str, tool: str, run: str | None, result: JSON, identity: CallIdentity | None = None
) -> tuple[str, InboxItemType, dict[str, Any]]:
    """Build the event with the result of a call: its id, type and data, which says whose call it was."""
    data = {"toolCallId": call_id, "toolName": tool, "originRunId": run, "result": result}
    if identity is not None:
        data = {**identity_fields_with_user(identity), **data}
    return f"tr:{call_id}", "tool_result", data


def _items_from_rows(rows: list[Row]) -> list[InboxItem]:
    return sorted(map(_item_from_row, rows), key=lambda item: item.id)


def _item_from_row(row: Row) -> InboxItem:
    fields = {name: value for name, value in row.items() if name != "user_id"}
    return InboxItem(**{**fields, "data": json.loads(row["data"]), "user": row["user_id"] or None})
