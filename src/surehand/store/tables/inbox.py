"""The table `inbox`: events for the next cycle of an agent, in order of arrival, each delivered once.

An agent has one inbox for each user that it works for, and one for calls without a user. A host reads one of them (of
calls without a user: `user=""`), or, without `user`, all of an agent; each event says whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.core.call import CallIdentity
from surehand.store.database import Database, Row, SqlValue, Statement, UnexpectedRowCount, agent_parameters
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json
from surehand.store.stored_identity import identity_fields_with_user
from surehand.store.tables.runs import StoredRunState

InboxEventStatus: TypeAlias = Literal["waiting", "done", "failed"]
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


@dataclass(frozen=True, slots=True)
class InboxEvent:
    """An event for an agent, and what has become of it."""

    id: str
    """The id under which it was put into the inbox; the same id again is the same event."""
    agent: str
    user: str | None
    session: str | None
    type: InboxItemType
    data: JSON
    status: InboxEventStatus
    """`waiting` until the run of the event has ended; `failed` if that run failed or was stopped."""
    reason: str
    """Why it failed, what its run waits for, or why the last attempt failed."""
    attempts: int
    """How many attempts of its run have failed; the last of them ends the run."""
    run_id: str | None
    """The run that the event starts or continues; None for an event that was taken without a run."""
    run_status: StoredRunState | None
    """The status of that run; None if it has not begun."""
    created_at: float
    cursor: int = 0
    """Continues a list of events after this one."""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that no run has been given yet."""

    id: int
    agent: str
    user: str | None
    session: str | None
    event_id: str
    run_id: str | None
    """The id of the run that it is to start; None if any will do."""
    type: InboxItemType
    data: JSON


class InboxTable:
    """Pushes events to agents; takes, drains and counts the waiting ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def push_statement(
        self,
        agent: str,
        event_id: str,
        type: InboxItemType,
        data: JSON,
        *,
        user: str | None = None,
        session: str | None = None,
        run_id: str | None = None,
    ) -> Statement:
        """Build the statement that pushes an event; it returns no row if the inbox already has the event.

        Args:
            run_id: the id of the run that a worker is to start for it.
        """
        params: dict[str, SqlValue] = {
            "agent": agent,
            "user_id": user or "",
            "session": session,
            "event_id": event_id,
            "run_id": run_id,
            "type": type,
            "data": dump_json(data),
        }
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

    async def oldest(self, agents: Collection[str], *, limit: int) -> list[WaitingEvent]:
        """The oldest waiting events of these agents, for any user, without taking them."""
        rows = [
            row
            for names in agent_parameters(agents)
            for row in await self._database.read(_SQL["list_oldest_events"], {**names, "limit": limit})
        ]
        return sorted(map(_waiting_event_from_row, rows), key=lambda event: event.id)[:limit]

    async def give_to_run(self, id: int, run_id: str, statements: Sequence[Statement] = ()) -> bool:
        """Give a waiting event to a run, with other statements; False, and nothing changes, if it was taken before."""
        give = Statement(_SQL["give_event_to_run"], {"id": id, "run_id": run_id}, expect=1)
        try:
            await self._database.write([give, *statements, Statement("{announce}")])
        except UnexpectedRowCount:
            return False
        return True

    async def find_event(
        self, agent: str, event_id: str, *, user: str | None = None, session: str | None = None
    ) -> InboxEvent | None:
        """Find an event by its id, with what has become of it."""
        params = {"agent": agent, "event_id": event_id, "user_id": user, "session": session}
        rows = await self._database.read(_SQL["find_event"], params)
        return _event_from_row(rows[0]) if rows else None

    async def list_events(
        self,
        agent: str | None = None,
        *,
        user: str | None = None,
        session: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[InboxEvent]:
        """The latest events of an agent, or of all, with what has become of them, newest first.

        Args:
            before: the `cursor` of the last event of the page before.
        """
        params: dict[str, SqlValue] = {
            "agent": agent,
            "user_id": user,
            "session": session,
            "before": before,
            "limit": max(limit, 0),
        }
        return [_event_from_row(row) for row in await self._database.read(_SQL["list_events"], params)]

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


def _waiting_event_from_row(row: Row) -> WaitingEvent:
    fields = {name: value for name, value in row.items() if name != "user_id"}
    return WaitingEvent(**{**fields, "data": json.loads(row["data"]), "user": row["user_id"] or None})


def _event_from_row(row: Row) -> InboxEvent:
    return InboxEvent(
        id=row["event_id"],
        agent=row["agent"],
        user=row["user_id"] or None,
        session=row["session"],
        type=row["type"],
        data=json.loads(row["data"]),
        status=_event_status(row["state"], row["run_state"]),
        reason=row["reason"] or "",
        attempts=row["failed_attempts"] or 0,
        run_id=row["run_id"],
        run_status=row["run_state"],
        created_at=row["created_at"],
        cursor=row["id"],
    )


def _event_status(state: str, run_state: str | None) -> InboxEventStatus:
    """What has become of an event: it ends when its run ends, or when it was taken without one."""
    if state == "failed" or run_state in ("failed", "stopped"):
        return "failed"
    if state == "processed" and run_state in ("done", None):
        return "done"
    return "waiting"
