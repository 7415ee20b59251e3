"""Retention: how long what is over is remembered. What waits, runs or is unknown is never forgotten."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from surehand.core.errors import DefinitionError
from surehand.store.database import Database, SqlValue, Statement

DAY_SECONDS = 86_400.0
BATCH_ROWS = 1_000
"""Rows that one write forgets: nobody else should have to wait for long."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds that things are kept once they are over; None for ever. The audit is kept for ever."""

    calls: float | None = 30 * DAY_SECONDS
    """Ended calls: as long, a repeated id or answer gets the stored outcome."""
    idle: float | None = DAY_SECONDS
    """Ids of calls that came to nothing."""
    journal: float | None = 30 * DAY_SECONDS
    inbox: float | None = 7 * DAY_SECONDS
    runs: float | None = 90 * DAY_SECONDS
    artifacts: float | None = 7 * DAY_SECONDS
    events: float | None = 7 * DAY_SECONDS
    """What happened in spaces and runs: whoever was away for longer is told how much it missed."""
    messages: float | None = None
    max_calls: int | None = None
    """Calls that have ended, and ids that came to nothing, of which so many are kept, however young."""
    max_artifacts: int | None = None
    max_artifact_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
                raise DefinitionError(
                    f"Retention({field.name}={value!r}) keeps nothing for so long.",
                    fix="give seconds or a number from 0 on, or None for ever.",
                )


_OLD = "ended_at < {now} - :age ORDER BY ended_at LIMIT :batch"
_CALLS = f"SELECT call_id FROM ledger WHERE state = 'ended' AND {_OLD}"
_IDLE = """SELECT call_id FROM ledger WHERE state = 'idle' AND state <> 'ended' AND created_at < {now} - :age
    ORDER BY created_at LIMIT :batch"""
_SURPLUS = """SELECT call_id FROM ledger WHERE state = 'ended' AND (ended_at, call_id) <= (SELECT ended_at, call_id
    FROM ledger WHERE state = 'ended' ORDER BY ended_at DESC, call_id DESC LIMIT 1 OFFSET :most)
    ORDER BY ended_at, call_id LIMIT :batch"""
_JOURNAL = """SELECT id FROM (SELECT id, at FROM journal ORDER BY {order} LIMIT :batch) AS oldest
    WHERE at < {now} - :age"""
# What is for no agent in particular need not be taken by anybody.
_INBOX = """SELECT id FROM inbox WHERE ended_at < {now} - :age OR (agent = '' AND created_at < {now} - :age)
    ORDER BY id LIMIT :batch"""
_RUNS = f"SELECT run_id FROM runs WHERE ended_at IS NOT NULL AND {_OLD}"
_ARTIFACTS = "SELECT handle FROM artifacts WHERE created_at < {now} - :age ORDER BY created_at LIMIT :batch"
_EVENTS = "SELECT stream, number FROM events WHERE at < {now} - :age ORDER BY at LIMIT :batch"
# What shows a call that has not ended is amended yet.
_MESSAGES = """SELECT message_id FROM messages WHERE created_at < {now} - :age AND NOT EXISTS (SELECT 1 FROM ledger
    WHERE ledger.call_id = messages.call_id AND ledger.state <> 'ended') ORDER BY created_at LIMIT :batch"""
_DELETIONS = {
    "calls": (("pending", "call_id", _CALLS), ("ledger", "call_id", _CALLS)),
    "idle": (("ledger", "call_id", _IDLE),),
    "journal": (("journal", "id", _JOURNAL),),
    "inbox": (("inbox", "id", _INBOX),),
    "runs": (("runs", "run_id", _RUNS),),
    "artifacts": (("artifacts", "handle", _ARTIFACTS),),
    "events": (("events", "(stream, number)", _EVENTS),),
    "messages": (("messages", "message_id", _MESSAGES),),
}


_SURPLUS_NOT_EXEMPT = "state = 'ended' AND call_id NOT IN (SELECT value FROM json_each(:spared)) AND (ended_at"


async def prune(database: Database, retention: Retention, exempt_call_ids: Collection[str] = ()) -> dict[str, int]:
    """Forget what is old enough; how many of each were forgotten.

    Calls that are `spared` stay however many there are; only where the database is SQLite.
    """
    ages = {field.name: getattr(retention, field.name) for field in fields(retention)}
    counts = {
        name: await _delete_in_batches(database, steps, {"age": float(ages[name])})
        for name, steps in _DELETIONS.items()
        if ages[name] is not None
    }
    if retention.max_calls is not None:
        ended = _SURPLUS.replace("state = 'ended' AND (ended_at", _SURPLUS_NOT_EXEMPT) if exempt_call_ids else _SURPLUS
        params: dict[str, SqlValue] = {"most": retention.max_calls}
        if exempt_call_ids:
            params["spared"] = json.dumps(list(exempt_call_ids))
        for which in (ended, ended.replace("'ended'", "'idle'").replace("ended_at", "created_at")):
            surplus = (("pending", "call_id", which), ("ledger", "call_id", which))
            counts["calls"] = counts.get("calls", 0) + await _delete_in_batches(database, surplus, params)
    return counts


async def _delete_in_batches(
    database: Database, deletions: tuple[tuple[str, str, str], ...], params: Mapping[str, SqlValue]
) -> int:
    """Batch by batch, until a batch is not full."""
    total = 0
    while True:
        deletes = [
            f"DELETE FROM {table} WHERE {key} IN ({which}) RETURNING 1 AS gone" for table, key, which in deletions
        ]
        results = await database.write([Statement(sql, {**params, "batch": BATCH_ROWS}) for sql in deletes])
        total += len(results[-1])
        if len(results[-1]) < BATCH_ROWS:
            return total
