"""Routes of calls: which are remembered, how one stands, and cancelling it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from surehand.core.outcome import Pending
from surehand.gateway.access.identity import Identity
from surehand.gateway.api.call_history import (
    CallFilterStatus,
    CallHistoryEntry,
    list_memory_calls,
    list_stored_calls,
)
from surehand.gateway.api.models import CallDetails, CallPage
from surehand.gateway.api.requests import Caller, Cursor, Limit, SessionFilter, json_response, page_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.events.event_json import outcome_to_json
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

if TYPE_CHECKING:
    from surehand.runtime.pending.status import CallStatus

CallId = Annotated[str, Path(min_length=1, max_length=200, description="The id of a call.")]
ToolFilter = Annotated[str | None, Query(max_length=200, description="Only those of this tool.")]
CallStatusFilter = Annotated[CallFilterStatus | None, Query(description="Only those with this status.")]
UserFilter = Annotated[str | None, Query(max_length=200, description="Only those of this user.")]


def call_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/calls`."""
    router = APIRouter(tags=["calls"], route_class=StrictRoute)

    @router.get("/api/calls", responses={200: {"model": CallPage}})
    async def list_calls(
        identity: Caller,
        limit: Limit = 100,
        cursor: Cursor = None,
        tool: ToolFilter = None,
        session: SessionFilter = None,
        user: UserFilter = None,
        status: CallStatusFilter = None,
    ) -> Response:
        """List the calls that are remembered, newest first.

        Calls with the status `waiting` wait for an answer, or for a person who finds out whether their effect happened.
        """
        filters = {"tool": tool, "session": session, "user": user if identity.sees_all_calls else identity.user}
        if gateway.runtime.is_durable:
            page, next_cursor = await list_stored_calls(await gateway.require_store(), filters, limit, cursor, status)
        else:
            page, next_cursor = list_memory_calls(gateway.feed, filters, limit, cursor, status)
        visible = [
            each for each in page if gateway.may_see_call(identity, user=each.user, tool=each.tool, agent=each.agent)
        ]
        return page_response([asdict(each) for each in visible], next_cursor)

    @router.get("/api/calls/{call_id}", responses={200: {"model": CallDetails}})
    async def show_call(identity: Caller, call_id: CallId) -> Response:
        """Show how a call stands, with its outcome if it has ended."""
        return json_response(await require_call(gateway, identity, call_id, "read call"))

    @router.post("/api/calls/{call_id}/cancel", responses={200: {"model": CallDetails}})
    async def cancel_call(identity: Caller, call_id: CallId) -> Response:
        """Cancel a call that runs or waits; one that has ended is a conflict."""
        details = await find_call(gateway, identity, call_id)
        if details is None or (details["user"] != identity.user and not identity.is_operator):
            await gateway.audit_refusal(identity, "cancel", call_id=call_id, code="not_found")
            raise unknown_call(call_id)
        scope = gateway.runtime if identity.is_operator else gateway.scope(identity)
        if not await scope.cancel(call_id, by=identity.user):
            raise Problem("conflict", f"Call {call_id} has ended.", call_id=call_id)
        return json_response(await find_call(gateway, identity, call_id) or details)

    return router


def unknown_call(call_id: str) -> Problem:
    """The problem for a call that does not exist, or that the caller may not see: they look the same."""
    return Problem("not_found", f"No call {call_id[:80]} is known.")


async def require_call(gateway: Gateway, identity: Identity, call_id: str, action: str) -> dict[str, Any]:
    """What is remembered of a call; raises `Problem` for one that the identity may not see, and audits it."""
    details = await _find_any_call(gateway, call_id)
    if details is None:
        raise unknown_call(call_id)
    if not _may_see(gateway, identity, details):
        await gateway.audit_refusal(identity, action, call_id=call_id, tool=details["tool"], code="not_found")
        raise unknown_call(call_id)
    return details


async def find_call(gateway: Gateway, identity: Identity, call_id: str) -> dict[str, Any] | None:
    """What is remembered of a call that the identity may see; None for any other."""
    details = await _find_any_call(gateway, call_id)
    return details if details is not None and _may_see(gateway, identity, details) else None


def _may_see(gateway: Gateway, identity: Identity, details: Mapping[str, Any]) -> bool:
    return gateway.may_see_call(identity, user=details["user"], tool=details["tool"], agent=details["agent"])


async def _find_any_call(gateway: Gateway, call_id: str) -> dict[str, Any] | None:
    runtime = gateway.runtime
    status = await runtime.status(call_id)
    if status is not None:
        outcome = status.outcome
        kind = _kind_of(status)
        outcome_fields = None if outcome is None else outcome_to_json(outcome, status.call_id)
        status_code = (
            status.state
            if outcome_fields is None
            else outcome_fields.get("code") or outcome_fields.get("waiting_for") or "ok"
        )
        summary = CallHistoryEntry(
            status.call_id,
            status.tool,
            status_code,
            kind,
            status.changed_at,
            status.user,
            status.session,
            turn=status.turn,
            agent=status.agent,
        )
        return {**asdict(summary), "arguments": status.arguments, "outcome": outcome_fields}
    for running in runtime.running_calls():
        if running.assigned_id == call_id:
            principal = running.principal
            summary = CallHistoryEntry(
                call_id,
                running.tool_name,
                "running",
                "running",
                0.0,
                principal.user,
                principal.session,
                turn=principal.turn,
                agent=principal.agent,
            )
            return {**asdict(summary), "arguments": None, "outcome": None}
    if runtime.is_durable:
        store = await gateway.require_store()
        entries = await store.journal.list(call=call_id, limit=1)
        return (
            {**asdict(CallHistoryEntry.from_entry(entries[0])), "arguments": None, "outcome": None} if entries else None
        )
    return _find_in_memory(gateway, call_id)


def _kind_of(status: CallStatus) -> str:
    """The kind that the list shows for a call."""
    if status.outcome is None or status.state == "unknown":
        return status.state
    return "pending" if isinstance(status.outcome, Pending) else "ended"


def _find_in_memory(gateway: Gateway, call_id: str) -> dict[str, Any] | None:
    page, _ = list_memory_calls(gateway.feed, {"call_id": call_id}, 1, None)
    if not page:
        return None
    events = [each.fields for each in gateway.feed.events_of_call(call_id)]
    arguments = next((each["arguments"] for each in events if each["type"] == "CallStarted"), None)
    outcome = next((each["outcome"] for each in reversed(events) if each["type"] == "CallEnded"), None)
    return {**asdict(page[0]), "arguments": arguments, "outcome": outcome}
