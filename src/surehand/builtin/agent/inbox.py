"""The factory `inbox`: tools with which an agent takes events out of its inbox during a cycle, or ends the cycle."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from surehand.builtin.runtime_store import runtime_store
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import ToolError
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.store.store import Store

_EVENT_COLUMNS = "id, event_id, type, data, created_at"
# The call id is stored with the events that it took: repeated after a crash, the call gets the same events again.
_SELECT_TAKEN_EVENTS_SQL = (
    f"SELECT {_EVENT_COLUMNS} FROM inbox WHERE agent = :agent AND state = 'processed' AND owner = :call"
)
_TAKE_EVENTS_SQL = f"""UPDATE inbox SET state = 'processed', owner = :call, attempts = attempts + 1, taken_at = {{now}},
    ended_at = {{now}} WHERE agent = :agent AND state = 'pending' AND id IN (SELECT id FROM inbox
        WHERE agent = :agent AND state = 'pending' AND (CAST(:type AS TEXT) IS NULL OR type = :type)
        ORDER BY id LIMIT :count) RETURNING {_EVENT_COLUMNS}"""


def inbox() -> list[Tool[..., Any]]:
    """Tools with which an agent takes events out of its inbox in the runtime's store, or skips a cycle."""

    @tool(category="system", effects={"read"}, repeatable=True, visible=False)
    async def peek_inbox(
        ctx: Context,
        count: Annotated[int, Field(description="How many events to take.", ge=1, le=50)] = 1,
        filter: Annotated[
            Literal["space_message", "tool_result", "plan", "service"] | None,
            Field(description="Only events of this type; any if left out."),
        ] = None,
    ) -> dict[str, Any]:
        """Take the oldest waiting events out of your inbox, in full, to deal with them now."""
        async with runtime_store(ctx) as store:
            events = await _take_events(store, _require_agent(ctx), ctx.call_id, count, filter)
            return {"events": events, "remaining": await store.inbox.count(_require_agent(ctx))}

    @tool(category="system", effects={"read"}, repeatable=True, visible=False)
    async def skip(
        reason: Annotated[str | None, Field(description="Why there is nothing to do.", max_length=1_000)] = None,
    ) -> dict[str, Any]:
        """End this cycle at once because nothing needs to be done; nothing of it is remembered."""
        return {"action": "skip", "reason": reason}

    return [peek_inbox, skip]


def _require_agent(ctx: Context) -> str:
    if not ctx.agent:  # events without an agent share one inbox, over all users
        raise ToolError("Only an agent has an inbox, and this call is made for none.", code="not_found")
    return ctx.agent


async def _take_events(
    store: Store, agent: str, call_id: str, count: int, event_type: str | None
) -> list[dict[str, Any]]:
    from surehand.store.database import Statement  # database drivers are loaded only with a store

    rows = await store.database.read(_SELECT_TAKEN_EVENTS_SQL, {"agent": agent, "call": call_id})
    if not rows:
        take = Statement(_TAKE_EVENTS_SQL, {"agent": agent, "call": call_id, "count": count, "type": event_type})
        [rows] = await store.write([take])
    return [_render_event(row) for row in sorted(rows, key=lambda row: int(row["id"]))]


def _render_event(row: dict[str, Any]) -> dict[str, Any]:
    timestamp = datetime.fromtimestamp(row["created_at"], UTC).isoformat(timespec="milliseconds")
    return {"eventId": row["event_id"], "type": row["type"], "timestamp": timestamp, "data": json.loads(row["data"])}
