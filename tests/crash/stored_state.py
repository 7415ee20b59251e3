"""The state of a store after a crash, read with the database's own client instead of the product."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]
_SELECT_BY_TABLE = {
    "ledger": "SELECT * FROM ledger ORDER BY call_id",
    "pending": "SELECT * FROM pending ORDER BY call_id, round",
    "inbox": "SELECT agent, event_id, data FROM inbox ORDER BY id",
    "audit": "SELECT kind, call_id FROM audit",
    "journal": "SELECT kind, call_id FROM journal WHERE status <> 'unavailable'",
    "owners": "SELECT owner FROM owners",
    "runs": "SELECT * FROM runs ORDER BY run_id",
    "steps": "SELECT run_id, step, answer FROM steps ORDER BY run_id, step",
    "step_calls": "SELECT * FROM step_calls ORDER BY run_id, step, position",
    "run_messages": "SELECT run_id, step FROM run_messages ORDER BY id",
    "artifacts": "SELECT handle, bytes, length(content) AS kept FROM artifacts",
}


@dataclass(frozen=True)
class StoredState:
    """The rows about calls and runs in a store."""

    ledger: dict[str, Row]
    pending: list[Row]
    inbox: list[Row]
    audit: Counter[tuple[str, str]]
    journal: Counter[tuple[str, str]]
    """Without unavailable attempts, which may be repeated under the same id."""
    owners: list[str]
    artifacts: list[Row]
    runs: list[Row]
    steps: list[Row]
    step_calls: list[Row]
    run_messages: list[Row]

    @property
    def running(self) -> set[str]:
        """Calls that would have an unknown effect if their process died now."""
        return {call_id for call_id, row in self.ledger.items() if row["state"] == "running"}

    @property
    def unknown_effects(self) -> set[str]:
        """Calls whose effect was unknown at some time."""
        return {row["call_id"] for row in self.pending if json.loads(row["request"]) == {"unknown_effect": True}}

    @property
    def followed_calls(self) -> dict[str, str]:
        """The calls that repeat an earlier one instead of running, each with the earlier one."""
        requests = {row["call_id"]: json.loads(row["request"]) for row in self.pending}
        return {
            call_id: request["follows"]
            for call_id, request in requests.items()
            if isinstance(request, dict) and "follows" in request
        }

    @property
    def waiting(self) -> set[str]:
        """Calls that were pending at some time."""
        return {row["call_id"] for row in self.pending}


def read_stored_state(address: str) -> StoredState:
    """Read the state of the store; a store that does not exist is empty."""
    tables = _read_tables(address)
    return StoredState(
        ledger={row["call_id"]: row for row in tables["ledger"]},
        pending=tables["pending"],
        inbox=tables["inbox"],
        audit=Counter((row["kind"], row["call_id"]) for row in tables["audit"]),
        journal=Counter((row["kind"], row["call_id"]) for row in tables["journal"]),
        owners=[row["owner"] for row in tables["owners"]],
        artifacts=tables["artifacts"],
        runs=tables["runs"],
        steps=tables["steps"],
        step_calls=tables["step_calls"],
        run_messages=tables["run_messages"],
    )


def _read_tables(address: str) -> dict[str, list[Row]]:
    if address.startswith("postgresql:"):
        with psycopg.connect(address, autocommit=True, row_factory=dict_row) as connection:
            return {name: _select_rows(connection, sql) for name, sql in _SELECT_BY_TABLE.items()}
    if not Path(address).exists():
        return {name: [] for name in _SELECT_BY_TABLE}
    # Read only, so that the next process recovers the file, and not this one.
    with closing(sqlite3.connect(f"file:{address}?mode=ro", uri=True)) as file:
        file.row_factory = lambda cursor, row: dict(zip((each[0] for each in cursor.description), row, strict=True))
        return {name: _select_rows(file, sql) for name, sql in _SELECT_BY_TABLE.items()}


def _select_rows(connection: Any, sql: str) -> list[Row]:
    try:
        return list(connection.execute(sql))
    except (sqlite3.OperationalError, psycopg.errors.UndefinedTable) as error:
        if "no such table" in str(error) or "does not exist" in str(error):
            return []
        raise
