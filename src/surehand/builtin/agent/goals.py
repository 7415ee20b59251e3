"""The factory `goals`: tools with which an agent keeps its goals as notes in the runtime's store."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from surehand.builtin.agent.notes import MAX_NOTES_PER_CALL, AgentNotes, NoteKey, derive_note_key
from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.tool import Tool

GoalStatus: TypeAlias = Literal["active", "completed", "abandoned"]


class Goal(BaseModel):
    """One goal."""

    id: NoteKey | None = Field(default=None, description="Id of the goal to change; leave it out for a new one.")
    description: str = limited_field(description="What is to be reached.", min_length=1, max_length=4_000)
    status: GoalStatus = Field(default="active", description="How it stands.")
    priority: int = Field(default=0, description="Higher comes first.", ge=-1_000_000, le=1_000_000)


def goals() -> list[Tool[..., Any]]:
    """Tools with which an agent keeps its goals, in the runtime's store."""
    notes = AgentNotes("goal")

    @tool(category="memory", **OWN_NOTES_OPTIONS,
          examples=[{"goals": [{"description": "Publish the newsletter by Friday", "priority": 2}]}])  # fmt: skip
    async def set_goals(
        goals: Annotated[
            list[Goal],
            limited_field(description="Goals to add or change.", min_length=1, max_length=MAX_NOTES_PER_CALL),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Add goals, or change those whose id is given: description, status and priority are all replaced."""
        goal_by_key = {goal.id or derive_note_key(ctx, index): goal for index, goal in enumerate(goals)}
        await notes.write(ctx, {key: goal.model_dump(exclude={"id"}) for key, goal in goal_by_key.items()})
        return {"success": True, "count": len(goal_by_key), "goalIds": list(goal_by_key)}

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False)
    async def get_goals(
        ctx: Context,
        status: Annotated[GoalStatus | None, Field(description="Only goals that stand so; all if left out.")] = None,
    ) -> dict[str, Any]:
        """List your goals, the most important first."""
        stored = await notes.read_all(ctx)
        matching = [{"id": key, **goal} for key, goal in stored.items() if status in (None, goal["status"])]
        return {"goals": sorted(matching, key=lambda goal: -goal["priority"])}

    @tool(category="memory", **OWN_NOTES_OPTIONS)
    async def delete_goals(
        goal_ids: Annotated[
            list[NoteKey],
            limited_field(
                alias="goalIds", description="Ids of the goals to forget.", min_length=1, max_length=MAX_NOTES_PER_CALL
            ),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Forget goals for good, by their ids. Set a goal's status instead if it should be remembered."""
        return {"success": True, "deleted": await notes.delete(ctx, goal_ids)}

    return [set_goals, get_goals, delete_goals]
