"""The table `notes`: what an agent writes down for itself: memories, goals, plans and todos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from surehand.store.database import Database, Statement
from surehand.store.queries import load_queries

NoteKind: TypeAlias = Literal["memory", "goal", "plan", "todo"]

_SQL = load_queries("notes")


class NoteTable:
    """Notes by agent, kind and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, agent: str, kind: NoteKind, notes: Mapping[str, Any]) -> None:
        """Store notes, all or none; an existing key gets the new value."""
        rows = [{"agent": agent, "kind": kind, "key": key, "value": json.dumps(value)} for key, value in notes.items()]
        await self._database.write([Statement(_SQL["put_note"], row) for row in rows])

    async def all(self, agent: str, kind: NoteKind) -> dict[str, Any]:
        """Return all notes of a kind, by key."""
        rows = await self._database.read(_SQL["list_notes"], {"agent": agent, "kind": kind})
        return {row["key"]: json.loads(row["value"]) for row in rows}

    async def delete(self, agent: str, kind: NoteKind, keys: Iterable[str]) -> int:
        """Delete notes; returns how many existed."""
        statements = [Statement(_SQL["delete_note"], {"agent": agent, "kind": kind, "key": key}) for key in keys]
        return sum(len(rows) for rows in await self._database.write(statements))
