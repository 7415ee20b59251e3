"""Notes: what an agent writes down for itself - memories, goals, plans, todos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from surehand.store.database import Database, Statement

NoteKind: TypeAlias = Literal["memory", "goal", "plan", "todo"]

_SET = """INSERT INTO notes (agent, kind, key, value, updated_at) VALUES (:agent, :kind, :key, :value, {now})
          ON CONFLICT (agent, kind, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"""
_ALL = "SELECT key, value, updated_at FROM notes WHERE agent = :agent AND kind = :kind ORDER BY key"
_DELETE = "DELETE FROM notes WHERE agent = :agent AND kind = :kind AND key = :key RETURNING key"


class NoteTable:
    "NoteTablees by agent, kind and key."

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, agent: str, kind: NoteKind, notes: Mapping[str, Any]) -> None:
        """Write notes, all or none; a key that is there already gets the new value."""
        rows = [{"agent": agent, "kind": kind, "key": key, "value": json.dumps(value)} for key, value in notes.items()]
        await self._database.write([Statement(_SET, row) for row in rows])

    async def all(self, agent: str, kind: NoteKind) -> dict[str, Any]:
        """All notes of a kind, by key."""
        rows = await self._database.read(_ALL, {"agent": agent, "kind": kind})
        return {row["key"]: json.loads(row["value"]) for row in rows}

    async def delete(self, agent: str, kind: NoteKind, keys: Iterable[str]) -> int:
        """Take notes away; gives how many there were."""
        statements = [Statement(_DELETE, {"agent": agent, "kind": kind, "key": key}) for key in keys]
        return sum(len(rows) for rows in await self._database.write(statements))
