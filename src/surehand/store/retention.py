"""Retention: how long a store keeps rows that are over, and the pruning of older ones.

Calls that wait, run or have an unknown effect are never deleted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from surehand.core.errors import DefinitionError
from surehand.store.database import Database, SqlValue, Statement
from surehand.store.queries import load_queries

DAY_SECONDS = 86_400.0
BATCH_ROWS = 1_000
"""Rows that one transaction deletes: other writers should not have to wait long."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How many seconds rows are kept once they are over; None keeps them for ever. The audit is always kept."""

    calls: float | None = 30 * DAY_SECONDS
    """Ended calls. As long as they are kept, a repeated id or answer gets the stored outcome."""
    idle: float | None = DAY_SECONDS
    """Ids of calls that never ran."""
    journal: float | None = 30 * DAY_SECONDS
    inbox: float | None = 7 * DAY_SECONDS
    runs: float | None = 90 * DAY_SECONDS
    """Ended runs of agents, with their steps. A call is kept until the run that made it has its outcome."""
    artifacts: float | None = 7 * DAY_SECONDS
    events: float | None = 7 * DAY_SECONDS
    """Events of spaces and runs. A reader that was away for longer gets `Missed` with their number."""
    messages: float | None = None
    max_calls: int | None = None
    """Maximum number of ended calls, and of ids of calls that never ran, whatever their age."""
    max_artifacts: int | None = None
    max_artifact_bytes: int | None = None
    offers: float | None = 30 * DAY_SECONDS
    """Tools that sessions offer, since they last did, and the space that an agent is in, since it entered it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
                raise DefinitionError(
                    f"Retention({field.name}={value!r}) is not a valid limit.",
                    fix="pass a number of at least 0 (seconds, or a count), or None for no limit.",
                )


_SQL = load_queries("retention")
_DELETIONS = {
    "calls": (
        ("webhook_deliveries", "call_id", "old_calls"),
        ("pending", "call_id", "old_calls"),
        ("ledger", "call_id", "old_calls"),
    ),
    "idle": (("ledger", "call_id", "old_idle_calls"),),
    "journal": (("journal", "id", "old_journal_entries"),),
    "inbox": (("inbox", "id", "old_inbox_items"),),
    "runs": (
        ("step_calls", "run_id", "old_runs"),
        ("steps", "run_id", "old_runs"),
        ("run_messages", "run_id", "old_runs"),
        ("runs", "run_id", "old_runs"),
    ),
    "artifacts": (("artifacts", "handle", "old_artifacts"),),
    "events": (("events", "(stream, number)", "old_events"),),
    "messages": (("messages", "message_id", "old_messages"),),
    "offers": (("offered_tools", "(user_id, session, name)", "old_offered_tools"),),
}
"""By field of `Retention`: table, key, and the query that selects the keys to delete."""
_ACTIVE_SPACES = (("active_spaces", "(user_id, session, member)", "old_active_spaces"),)


async def prune(database: Database, retention: Retention, exempt_call_ids: Collection[str] = ()) -> dict[str, int]:
    """Delete rows that are old enough; returns the number of each kind.

    Args:
        exempt_call_ids: Calls that `max_calls` does not delete; on SQLite only.
    """
    ages = {field.name: getattr(retention, field.name) for field in fields(retention)}
    counts = {
        name: await _delete_in_batches(database, deletions, {"age": float(ages[name])})
        for name, deletions in _DELETIONS.items()
        if ages[name] is not None
    }
    if retention.offers is not None:
        counts["offers"] += await _delete_in_batches(database, _ACTIVE_SPACES, {"age": float(retention.offers)})
    if retention.max_calls is not None:
        surplus = await _delete_surplus_calls(database, retention.max_calls, exempt_call_ids)
        counts["calls"] = counts.get("calls", 0) + surplus
    return counts


async def _delete_surplus_calls(database: Database, max_calls: int, exempt_call_ids: Collection[str]) -> int:
    queries = ("surplus_ended_calls", "surplus_idle_calls")
    params: dict[str, SqlValue] = {"max_calls": max_calls}
    if exempt_call_ids:
        queries = ("surplus_ended_calls_except", "surplus_idle_calls_except")
        params["exempt_call_ids"] = json.dumps(list(exempt_call_ids))
    count = 0
    for query in queries:
        deletions = tuple((table, "call_id", query) for table in ("webhook_deliveries", "pending", "ledger"))
        count += await _delete_in_batches(database, deletions, params)
    return count


async def _delete_in_batches(
    database: Database, deletions: tuple[tuple[str, str, str], ...], params: Mapping[str, SqlValue]
) -> int:
    """Delete one batch per transaction until a batch is not full; returns the count of the last table.

    The rows are counted first, without a lock: mostly there are none. The count is approximate if two processes prune.
    """
    params = {**params, "batch": BATCH_ROWS}
    statements = [
        Statement(f"DELETE FROM {table} WHERE {key} IN ({_SQL[query]})", params) for table, key, query in deletions
    ]
    count_sql = f"SELECT count(*) AS number FROM ({_SQL[deletions[-1][2]]}) AS deletable"
    total = 0
    while True:
        [row] = await database.read(count_sql, params)
        if row["number"]:
            await database.write(statements)
            total += int(row["number"])
        if row["number"] < BATCH_ROWS:
            return total
