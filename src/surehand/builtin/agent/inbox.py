"""The factory `inbox`: tools with which an agent takes events out of its inbox during a cycle, or ends the cycle.

An agent that works for a user sees the events of that user, and the messages of the spaces that it is a member of.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS, runtime_store
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import ToolError
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.store.tables.inbox import InboxItem


def inbox() -> list[Tool[..., Any]]:
    """Tools with which an agent takes events out of its inbox in the runtime's store, or skips a cycle."""

    @tool(category="system", **OWN_NOTES_OPTIONS)
    async def peek_inbox(
        ctx: Context,
        count: Annotated[int, Field(description="How many events to take.", ge=1, le=50)] = 1,
        filter: Annotated[
            Literal["space_message", "tool_result", "plan", "service"] | None,
            Field(description="Only events of this type; any if left out."),
        ] = None,
    ) -> dict[str, Any]:
        """Take the oldest waiting events out of your inbox, in full, to deal with them now."""
        agent = _require_agent(ctx)
        async with runtime_store(ctx) as store:
            items, remaining = await store.inbox.take_for_call(agent, ctx.user, ctx.call_id, count=count, type=filter)
        return {"events": [_render_event(item) for item in items], "remaining": remaining}

    @tool(category="system", effects={"read"}, repeatable=True, visible=False)
    async def skip(
        reason: Annotated[
            str | None, limited_field(description="Why there is nothing to do.", max_length=1_000)
        ] = None,
    ) -> dict[str, Any]:
        """End this cycle at once because nothing needs to be done; nothing of it is remembered."""
        return {"action": "skip", "reason": reason}

    return [peek_inbox, skip]


def _require_agent(ctx: Context) -> str:
    if not ctx.agent:  # events without an agent share one inbox, over all users
        raise ToolError("Only an agent has an inbox, and this call is made for none.", code="not_found")
    return ctx.agent


def _render_event(item: InboxItem) -> dict[str, Any]:
    timestamp = datetime.fromtimestamp(item.created_at, UTC).isoformat(timespec="milliseconds")
    return {"eventId": item.event_id, "type": item.type, "timestamp": timestamp, "data": item.data}
