"""The list of calls: one line each, newest first, from the journal of the store or from the events in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.gateway.api.requests import is_number
from surehand.gateway.events.feed import EventFeed
from surehand.gateway.problems import Problem
from surehand.store.history_filter import HistoryFilter

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.journal import JournalRow

CallFilterStatus: TypeAlias = Literal["running", "waiting", "done", "failed"]
MAX_ACTIVE_CALLS = 1_000
"""Calls that run, wait or whose effect is unknown, among which those of one status are looked for."""
ENTRIES_PER_CALL = 3
"""Journal entries that are read for each call of a page: it may have waited and been answered before it ended."""


@dataclass(frozen=True, slots=True)
class CallHistoryEntry:
    """A call as the list shows it."""

    call_id: str
    tool: str
    status: str
    kind: str
    at: float
    user: str | None
    session: str | None = None
    parent: str | None = None
    latency_ms: float = 0.0
    turn: str | None = None
    agent: str | None = None

    @property
    def filter_status(self) -> CallFilterStatus:
        """The status by which calls are filtered: one of unknown effect waits for a person who finds out."""
        if self.kind == "ended":
            return "done" if self.status == "ok" else "failed"
        return "waiting" if self.kind in ("pending", "waiting", "unknown") else "running"

    @classmethod
    def from_entry(cls, entry: JournalRow) -> CallHistoryEntry:
        """A call by its newest journal entry."""
        return cls(
            entry.call_id, entry.tool, entry.status, entry.kind, entry.at, entry.user, entry.session, entry.parent,
            entry.latency_ms, entry.turn, entry.agent,
        )  # fmt: skip


async def list_stored_calls(
    store: Store, filters: Mapping[str, Any], limit: int, cursor: str | None, status: CallFilterStatus | None = None
) -> tuple[list[CallHistoryEntry], str | None]:
    """A page of calls by their newest journal entries, and calls that run; and the cursor of the next page."""
    position = HistoryPosition.parse(cursor)
    if status == "running":  # the journal has calls only once they wait or have ended
        return await _list_running_calls(store, filters, limit, position)
    summaries: dict[str, CallHistoryEntry] = {}
    if cursor is None:
        summaries = await _list_active_calls(store, filters, limit, status)
    count = ENTRIES_PER_CALL * limit + position.skip
    entries = [*await store.journal.list(**filters, until=position.until, outcome=status, limit=count)]
    for index, entry in enumerate(entries[position.skip :], position.skip + 1):
        if len(summaries) >= limit:
            return [*summaries.values()], HistoryPosition.after(entries, index - 1).cursor
        is_shown = entry.call_id in summaries
        if not is_shown and await _is_newest(store, entry, has_newer=cursor is not None or status is not None):
            summaries[entry.call_id] = CallHistoryEntry.from_entry(entry)
    has_more = len(entries) == count
    return [*summaries.values()], HistoryPosition.after(entries, len(entries)).cursor if has_more else None


async def _list_running_calls(
    store: Store, filters: Mapping[str, Any], limit: int, position: HistoryPosition
) -> tuple[list[CallHistoryEntry], str | None]:
    """A page of the calls that run, and the cursor of the next page."""
    count = MAX_ACTIVE_CALLS + position.skip
    entries = await _read_active_calls(store, HistoryFilter(**filters, until=position.until, limit=count))
    page: list[CallHistoryEntry] = []
    for index, entry in enumerate(entries[position.skip :], position.skip + 1):
        if len(page) >= limit:
            return page, HistoryPosition.after(entries, index - 1).cursor
        if entry.filter_status == "running":
            page.append(entry)
    has_more = len(entries) == count
    return page, HistoryPosition.after(entries, len(entries)).cursor if has_more else None


async def _list_active_calls(
    store: Store, filters: Mapping[str, Any], limit: int, status: CallFilterStatus | None
) -> dict[str, CallHistoryEntry]:
    """The calls that run or whose effect is unknown, by id. Of one that waits, the journal says what for."""
    if status in ("done", "failed"):
        return {}
    count = limit if status is None else MAX_ACTIVE_CALLS
    entries = await _read_active_calls(store, HistoryFilter(**filters, limit=count))
    wanted = [each for each in entries if each.kind != "waiting" and status in (None, each.filter_status)]
    return {each.call_id: each for each in wanted[:limit]}


async def _read_active_calls(store: Store, wanted: HistoryFilter) -> list[CallHistoryEntry]:
    rows = await store.active_calls(wanted)
    return [
        CallHistoryEntry(each.call_id, each.tool, each.state, each.state, each.created_at, each.user, each.session)
        for each in rows
    ]


async def _is_newest(store: Store, entry: JournalRow, *, has_newer: bool) -> bool:
    """Whether nothing newer happened to the call, if newer entries were not read before."""
    if not has_newer or entry.kind == "ended":
        return True
    newest = await store.journal.list(call=entry.call_id, limit=1)
    return bool(newest) and newest[0].cursor == entry.cursor


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """A place in a list that is sorted by time: rows up to a moment, without the first ones of that moment."""

    until: float | None = None
    skip: int = 0

    @classmethod
    def parse(cls, cursor: str | None) -> HistoryPosition:
        """The place that a client reads on from; raises `Problem` for what is no cursor."""
        if cursor is None:
            return cls()
        try:
            until, skip = cursor.split(":")
            position = cls(float(until), int(skip))
        except ValueError:
            position = cls(None, -1)
        if position.skip < 0 or position.until is None or not abs(position.until) < 1e12:
            raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
        return position

    @classmethod
    def after(cls, rows: list[Any], count: int) -> HistoryPosition:
        """The place after the first rows of a list, newest first; before the first one if `count` is 0."""
        if count == 0:
            return cls(rows[0].at)
        until = rows[count - 1].at
        return cls(until, sum(row.at == until for row in rows[:count]))

    @property
    def cursor(self) -> str:
        """The place as a text."""
        return f"{self.until!r}:{self.skip}"


def list_memory_calls(
    feed: EventFeed, filters: Mapping[str, Any], limit: int, cursor: str | None, status: CallFilterStatus | None = None
) -> tuple[list[CallHistoryEntry], str | None]:
    """A page of calls by their newest events; and the cursor of the next page, the number of an event."""
    if cursor is not None and not is_number(cursor):
        raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
    wanted = {name: value for name, value in filters.items() if value is not None}
    seen: set[str] = set()
    page: list[CallHistoryEntry] = []
    last_number = 0
    for event in feed.newest_events():
        fields = event.fields
        call_id = fields.get("call_id")
        if call_id is None or call_id in seen or "run_id" in fields:  # the events of runs are not of calls
            continue
        seen.add(call_id)
        is_later = cursor is None or event.number < int(cursor)
        if not is_later or any(fields.get(name) != value for name, value in wanted.items()):
            continue
        summary = _summary_of_event(fields)
        if status is not None and summary.filter_status != status:
            continue
        if len(page) == limit:
            return page, str(last_number)
        last_number = event.number
        page.append(summary)
    return page, None


def _summary_of_event(fields: Mapping[str, Any]) -> CallHistoryEntry:
    kind = status = "running"
    latency_ms = 0.0
    if fields["type"] == "CallEnded":
        outcome = fields["outcome"]
        kind = "pending" if outcome["status"] == "pending" else "ended"
        status = outcome.get("code") or outcome.get("waiting_for") or "ok"
        latency_ms = fields["meta"]["latency_ms"]
    elif fields["type"] == "CallPending":
        kind = "pending"
        status = fields["waiting_for"]
    return CallHistoryEntry(
        fields["call_id"], fields["tool"], status, kind, fields["at"], fields["user"], fields["session"],
        fields["parent"], latency_ms, fields["turn"], fields["agent"],
    )  # fmt: skip
