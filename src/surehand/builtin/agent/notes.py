"""Notebook: the notes of one kind that an agent keeps for itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from surehand.builtin.runtime_store import runtime_store
from surehand.core.context import Context
from surehand.core.errors import ToolError

if TYPE_CHECKING:
    from surehand.store.tables.notes import NoteKind

MAX_NOTES = 1_000
"""Notes of one kind that an agent may keep: a model in a loop must not fill the store."""
MAX_NOTES_PER_CALL = 100
"""Notes that one call may write or take away."""


def _validate_printable(key: str) -> str:
    if not key.isprintable():
        raise ValueError("should have no control characters")
    return key


NoteKey = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_validate_printable)]


@dataclass(frozen=True, slots=True)
class AgentNotes:
    """Notes of one kind, by agent; a user without an agent has notes of his own."""

    kind: NoteKind

    async def read_all(self, ctx: Context) -> dict[str, Any]:
        """All notes, by key."""
        async with runtime_store(ctx) as store:
            return await store.notes.all(notes_owner(ctx), self.kind)

    async def write(self, ctx: Context, notes: Mapping[str, Any]) -> None:
        """Add notes, or replace those of the same keys; all or none."""
        known = await self.read_all(ctx)
        if len(known.keys() | notes.keys()) > MAX_NOTES:
            raise ToolError(
                f"There are {len(known)} {self.kind}s already, and at most {MAX_NOTES} are kept. Delete some first.",
                code="limit_exceeded",
            )
        async with runtime_store(ctx) as store:
            # In one order: two writers that meet in the database would otherwise wait for each other.
            await store.notes.put(notes_owner(ctx), self.kind, dict(sorted(notes.items())))

    async def delete(self, ctx: Context, keys: Iterable[str]) -> int:
        """Take notes away; gives how many there were."""
        async with runtime_store(ctx) as store:
            return await store.notes.delete(notes_owner(ctx), self.kind, sorted(set(keys)))


def notes_owner(ctx: Context) -> str:
    """Under whose name notes are kept."""
    return ctx.agent or ("" if ctx.user is None else json.dumps([ctx.user]))


def derive_note_key(ctx: Context, index: int) -> str:
    """A key for a new note: the same whenever the same call is run again, so that nothing is written twice."""
    return sha256(f"{ctx.idempotency_key}:{index}".encode()).hexdigest()[:12]
