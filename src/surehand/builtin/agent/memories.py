"""The factory `memories`: tools with which an agent remembers values by key, as notes in the runtime's store."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from surehand.builtin.agent.notes import MAX_NOTES_PER_CALL, AgentNotes, NoteKey
from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments
from surehand.core.tool import Tool


class Memory(BaseModel):
    """One thing to remember."""

    key: NoteKey = Field(description="Short name to find it by, such as user_birthday.")
    value: str = limited_field(description="What to remember.", max_length=20_000)


def memories() -> list[Tool[..., Any]]:
    """Tools with which an agent remembers values by key, in the runtime's store."""
    notes = AgentNotes("memory")

    @tool(category="memory", **OWN_NOTES_OPTIONS,
          examples=[{"memories": [{"key": "user_birthday", "value": "12 March"}]}])  # fmt: skip
    async def set_memories(
        memories: Annotated[
            list[Memory],
            limited_field(description="What to remember, each key once.", min_length=1, max_length=MAX_NOTES_PER_CALL),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Remember values by key beyond this conversation; a key that is known gets the new value."""
        values = {memory.key: memory.value for memory in memories}
        if len(values) < len(memories):
            raise InvalidArguments("A key is given twice, with one value each. Send each key once.")
        await notes.write(ctx, values)
        return {"success": True, "count": len(values)}

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False)
    async def get_memories(
        ctx: Context,
        keys: Annotated[
            list[NoteKey] | None,
            limited_field(description="Only these keys; all if left out.", max_length=MAX_NOTES_PER_CALL),
        ] = None,
    ) -> dict[str, Any]:
        """Recall what you remembered, all of it or some keys. Keys that are not known are left out."""
        stored = await notes.read_all(ctx)
        matching = [{"key": key, "value": value} for key, value in stored.items() if keys is None or key in keys]
        return {"memories": matching}

    @tool(category="memory", **OWN_NOTES_OPTIONS)
    async def delete_memories(
        keys: Annotated[
            list[NoteKey], limited_field(description="Keys to forget.", min_length=1, max_length=MAX_NOTES_PER_CALL)
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Forget what was remembered under these keys, for good."""
        return {"success": True, "deleted": await notes.delete(ctx, keys)}

    return [set_memories, get_memories, delete_memories]
