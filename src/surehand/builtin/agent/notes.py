"""Notes of one kind in the runtime's store, by agent and user. Goals, memories and plans are such notes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import runtime_store
from surehand.core.context import Context
from surehand.core.errors import ToolError

if TYPE_CHECKING:
    from surehand.store.tables.notes import NoteKind

MAX_NOTES = 1_000
"""Notes of one kind that an agent may have: a model in a loop must not fill the store."""
MAX_NOTES_PER_CALL = 100
"""Notes that one call may write or delete."""


def _validate_printable(key: str) -> str:
    if not key.isprintable():
        raise ValueError("should have no control characters")
    return key


NoteKey = Annotated[str, limited_field(min_length=1, max_length=200), AfterValidator(_validate_printable)]


@dataclass(frozen=True, slots=True)
class AgentNotes:
    """The notes of one kind. They belong to the agent of a call as it works for the call's user."""

    kind: NoteKind

    async def read_all(self, ctx: Context) -> dict[str, Any]:
        """Read all notes of the caller, by key."""
        async with runtime_store(ctx) as store:
            return await store.notes.all(notes_owner(ctx), self.kind, user=notes_user(ctx))

    async def write(self, ctx: Context, notes: Mapping[str, Any]) -> None:
        """Write notes by key, replacing older ones, in one transaction."""
        # Two calls at the same time may both pass this check: the limit is against a loop, not exact.
        stored = await self.read_all(ctx)
        if len(stored.keys() | notes.keys()) > MAX_NOTES:
            raise ToolError(
                f"There are {len(stored)} {self.kind}s already, and at most {MAX_NOTES} are kept. Delete some first.",
                code="limit_exceeded",
            )
        async with runtime_store(ctx) as store:
            # Sorted, so that two transactions lock rows in the same order and cannot deadlock.
            await store.notes.put(notes_owner(ctx), self.kind, dict(sorted(notes.items())), user=notes_user(ctx))

    async def delete(self, ctx: Context, keys: Iterable[str]) -> int:
        """Delete notes and return how many existed."""
        async with runtime_store(ctx) as store:
            return await store.notes.delete(notes_owner(ctx), self.kind, sorted(set(keys)), user=notes_user(ctx))


def notes_owner(ctx: Context) -> str:
    """The agent whose notes a call uses; without an agent, its user, as JSON to keep it apart from an agent's name."""
    return ctx.agent or ("" if ctx.user is None else json.dumps([ctx.user]))


def notes_user(ctx: Context) -> str | None:
    """The user that the agent of a call works for."""
    return ctx.user if ctx.agent else None


def derive_note_key(ctx: Context, index: int) -> str:
    """Key of a new note, derived from the call: a repeated call writes the same note instead of a second one."""
    return sha256(f"{ctx.idempotency_key}:{index}".encode()).hexdigest()[:12]
