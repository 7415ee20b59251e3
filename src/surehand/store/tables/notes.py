"""The table `notes`: what an agent writes down for itself: memories, goals, plans and todos.

An agent has its own notes for each user that it works for, and others for calls without a user.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from surehand.store.database import Database, SqlValue, Statement
from surehand.store.queries import load_queries

NoteKind: TypeAlias = Literal["memory", "goal", "plan", "todo"]

_SQL = load_queries("notes")


class NoteTable:
    """Notes by user, agent, kind and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, agent: str, kind: NoteKind, notes: Mapping[str, Any], *, user: str | None = None) -> None:
        """Store notes, all or none; an existing key gets the new value."""
        params = _notes_params(agent, user, kind)
        rows = [{**params, "key": key, "value": json.dumps(value)} for key, value in notes.items()]
        await self._database.write([Statement(_SQL["put_note"], row) for row in rows])

    async def all(self, agent: str, kind: NoteKind, *, user: str | None = None) -> dict[str, Any]:
        """Return all notes of a kind, by key."""
        rows = await self._database.read(_SQL["list_notes"], _notes_params(agent, user, kind))
        return {row["key"]: json.loads(row["value"]) for row in rows}

    async def all_users(self, agent: str, kind: NoteKind) -> dict[str | None, dict[str, Any]]:
        """Return the notes of a kind that an agent has, by user and key, for a host that works for all of them."""
        rows = await self._database.read(_SQL["list_notes_of_all_users"], {"agent": agent, "kind": kind})
        notes: dict[str | None, dict[str, Any]] = {}
        for row in rows:
            notes.setdefault(row["user_id"] or None, {})[row["key"]] = json.loads(row["value"])
        return notes

    async def replace(
        self, agent: str, kind: NoteKind, key: str, *, old: Any, new: Any, user: str | None = None
    ) -> bool:
        """Change a note that still has its old value; returns False if it has another one."""
        values: dict[str, SqlValue] = {"key": key, "old": json.dumps(old), "new": json.dumps(new)}
        statement = Statement(_SQL["replace_note"], {**_notes_params(agent, user, kind), **values})
        [changed] = await self._database.write([statement])
        return bool(changed)

    async def delete(self, agent: str, kind: NoteKind, keys: Iterable[str], *, user: str | None = None) -> int:
        """Delete notes; returns how many existed."""
        params = _notes_params(agent, user, kind)
        statements = [Statement(_SQL["delete_note"], {**params, "key": key}) for key in keys]
        return sum(len(rows) for rows in await self._database.write(statements))


def _notes_params(agent: str, user: str | None, kind: NoteKind) -> dict[str, SqlValue]:
    return {"agent": agent, "user_id": user or "", "kind": kind}
