"""Remains: what a store holds, read past the product, with the database's own client."""

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
_TABLES = {
    "ledger": "SELECT * FROM ledger ORDER BY call_id",
    "pending": "SELECT * FROM pending ORDER BY call_id, round",
    "inbox": "SELECT agent, event_id, data FROM inbox ORDER BY id",
    "audit": "SELECT kind, call_id FROM audit",
    "journal": "SELECT kind, call_id FROM journal WHERE status <> 'unavailable'",
    "owners": "SELECT owner FROM owners",
    "artifacts": "SELECT handle, bytes, length(content) AS kept FROM artifacts",
}


@dataclass(frozen=True)
class Remains:
    """The tables that tell what became of calls."""

    ledger: dict[str, Row]
    pending: list[Row]
    inbox: list[Row]
    audit: Counter[tuple[str, str]]
    journal: Counter[tuple[str, str]]
    """Without the tries that came to nothing: they may be made again under the same id."""
    owners: list[str]
    artifacts: list[Row]

    @property
    def running(self) -> set[str]:
        """Calls of which nobody could say now whether they happened."""
        return {call_id for call_id, row in self.ledger.items() if row["state"] == "running"}

    @property
    def doubted(self) -> set[str]:
        """Calls that somebody had to find out about."""
        return {row["call_id"] for row in self.pending if json.loads(row["request"]) == {"unknown_effect": True}}

    @property
    def waited(self) -> set[str]:
        """Calls that have waited for somebody."""
        return {row["call_id"] for row in self.pending}


def remains(address: str) -> Remains:
    """Everything, as it is now; a store that was never made holds nothing."""
    found = _read(address)
    return Remains(
        ledger={row["call_id"]: row for row in found["ledger"]},
        pending=found["pending"],
        inbox=found["inbox"],
        audit=Counter((row["kind"], row["call_id"]) for row in found["audit"]),
        journal=Counter((row["kind"], row["call_id"]) for row in found["journal"]),
        owners=[row["owner"] for row in found["owners"]],
        artifacts=found["artifacts"],
    )


def _read(address: str) -> dict[str, list[Row]]:
    if address.startswith("postgresql:"):
        with psycopg.connect(address, autocommit=True, row_factory=dict_row) as connection:
            return {name: _rows(connection, sql) for name, sql in _TABLES.items()}
    if not Path(address).exists():
        return {name: [] for name in _TABLES}
    # Read only, so that it is the next process that recovers the file, and not this one.
    with closing(sqlite3.connect(f"file:{address}?mode=ro", uri=True)) as file:
        file.row_factory = lambda cursor, row: dict(zip((each[0] for each in cursor.description), row, strict=True))
        return {name: _rows(file, sql) for name, sql in _TABLES.items()}


def _rows(connection: Any, sql: str) -> list[Row]:
    try:
        return list(connection.execute(sql))
    except (sqlite3.OperationalError, psycopg.errors.UndefinedTable) as error:
        if "no such table" in str(error) or "does not exist" in str(error):
            return []
        raise
