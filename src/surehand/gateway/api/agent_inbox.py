"""Routes of the inboxes of agents: putting an event into one, and what has become of the events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from surehand.gateway.access.identity import Identity
from surehand.gateway.api.agents import AgentId, require_agent
from surehand.gateway.api.models import TRIGGER_RESPONSES, InboxEventInfo, InboxEventPage, TriggerBody
from surehand.gateway.api.requests import Caller, Cursor, Limit, is_number, json_response, page_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tools import IdempotencyKey
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.runtime.scope import Scope
from surehand.store.tables.inbox import InboxEvent

EventId = Annotated[str, Path(min_length=1, max_length=200, description="The id of an event.")]


def agent_inbox_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/agents/{agent}/trigger` and `/inbox`."""
    router = APIRouter(tags=["agents"], route_class=StrictRoute)

    @router.post("/api/agents/{agent}/trigger", status_code=202, responses=TRIGGER_RESPONSES)
    async def trigger_agent(
        identity: Caller, agent: AgentId, body: TriggerBody, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Put an event into the inbox of an agent. It is stored when this answers; a worker runs the agent on it.

        The same `Idempotency-Key` again, by the same user, is the same event, and is run once.
        """
        found = await require_agent(gateway, identity, agent, "trigger agent")
        await gateway.require_store()
        event = await gateway.scope(identity, session=body.session).trigger(found, body.data, idempotency_key)
        if event.data != body.data:
            problem = f"The key {event.id[:80]!r} belongs to an event with other data."
            raise Problem("conflict", problem, event_id=event.id)
        return json_response(_event_to_json(event), 202)

    @router.get("/api/agents/{agent}/inbox", responses={200: {"model": InboxEventPage}})
    async def list_inbox_events(
        identity: Caller, agent: AgentId, limit: Limit = 100, cursor: Cursor = None
    ) -> Response:
        """List the events in the inbox of an agent, newest first, with what has become of them."""
        found = await require_agent(gateway, identity, agent, "read inbox")
        await gateway.require_store()
        if cursor is not None and not is_number(cursor):
            raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
        before = None if cursor is None else int(cursor)
        events = await _scope_of_viewer(gateway, identity).inbox(found, limit=limit + 1, before=before)
        page = events[:limit]
        next_cursor = str(page[-1].cursor) if len(events) > limit else None
        return page_response([_event_to_json(event) for event in page], next_cursor)

    @router.get("/api/agents/{agent}/inbox/{event}", responses={200: {"model": InboxEventInfo}})
    async def show_inbox_event(identity: Caller, agent: AgentId, event: EventId) -> Response:
        """Show what has become of one event."""
        found = await require_agent(gateway, identity, agent, "read inbox")
        await gateway.require_store()
        shown = await _scope_of_viewer(gateway, identity).find_event(found, event)
        if shown is None:
            if await gateway.runtime.find_event(found, event) is not None:
                await gateway.audit_refusal(identity, "read event", call_id=event, tool=agent, code="not_found")
            raise Problem("not_found", f"The agent {agent} has no event {event[:80]!r}.")
        return json_response(_event_to_json(shown))

    return router


def _scope_of_viewer(gateway: Gateway, identity: Identity) -> Scope:
    return gateway.runtime if identity.sees_all_calls else gateway.scope(identity)


def _event_to_json(event: InboxEvent) -> dict[str, Any]:
    return {
        "event_id": event.id,
        "agent": event.agent,
        "user": event.user,
        "session": event.session,
        "type": event.type,
        "data": event.data,
        "status": event.status,
        "reason": event.reason,
        "attempts": event.attempts,
        "run_id": event.run_id,
        "run_status": event.run_status,
        "created_at": event.created_at,
    }
