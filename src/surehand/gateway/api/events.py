"""Routes of event streams: of everything, of a call, of a run, of a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from surehand.core.event_formats import FAMILY_BY_NUMBER
from surehand.gateway.access.identity import Identity
from surehand.gateway.access.stream_access import StreamAccess
from surehand.gateway.api.calls import CallId, require_call
from surehand.gateway.api.models import EVENT_RESPONSES
from surehand.gateway.api.requests import Caller, is_number
from surehand.gateway.api.run_details import find_any_run, unknown_run
from surehand.gateway.api.run_stream import is_run_end, run_ended_event
from surehand.gateway.api.spaces import SpaceId, may_read_space, require_space
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tool_results import RunId
from surehand.gateway.events.event_stream import EventStreamResponse, StreamRequest, feed_frames, space_frames
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

FAMILIES = (*FAMILY_BY_NUMBER, *FAMILY_BY_NUMBER.values())
LastEventId = Annotated[
    str | None, Header(max_length=100, description="The `id` of the last event that the client has; else from now on.")
]
Family = Annotated[
    str | None, Query(description=f"The names and fields of another program: {', '.join(FAMILIES)}.", max_length=20)
]


def event_routes(gateway: Gateway) -> APIRouter:
    """The routes whose responses are server-sent events."""
    router = APIRouter(tags=["events"], route_class=StrictRoute)

    @router.get("/api/events", response_model=None, responses=EVENT_RESPONSES)
    async def follow_all(
        request: Request, identity: Caller, last_event_id: LastEventId = None, family: Family = None
    ) -> EventStreamResponse:
        """Follow the events of all calls that the caller may see."""
        return _open_stream(gateway, request, identity, lambda fields: True, last_event_id, family)

    @router.get("/api/calls/{call_id}/events", response_model=None, responses=EVENT_RESPONSES)
    async def follow_call(
        request: Request, identity: Caller, call_id: CallId, last_event_id: LastEventId = None, family: Family = None
    ) -> EventStreamResponse:
        """Follow the events of one call; the stream ends when the call has ended."""
        details = await require_call(gateway, identity, call_id, "follow call")
        ended_event = _ended_event(details) if details["kind"] == "ended" else None

        async def final_event() -> dict[str, Any] | None:
            return ended_event

        return _open_stream(
            gateway,
            request,
            identity,
            lambda fields: fields.get("call_id") == call_id,
            last_event_id,
            family,
            is_last=_is_outcome,
            final_event=None if ended_event is None else final_event,
        )

    @router.get("/api/runs/{run}/events", response_model=None, responses=EVENT_RESPONSES)
    async def follow_run(
        request: Request, identity: Caller, run: RunId, last_event_id: LastEventId = None, family: Family = None
    ) -> EventStreamResponse:
        """Follow the events of one run and of its calls; the stream of an agent's run ends when the run has ended."""
        known = await find_any_run(gateway, run)
        if known is not None and not gateway.may_see_run(identity, user=known.user, agent=known.agent):
            await gateway.audit_refusal(identity, "follow run", call_id=run, code="not_found")
            raise unknown_run(run)

        async def final_event() -> dict[str, Any] | None:
            ended = await find_any_run(gateway, run)
            return None if ended is None or not ended.has_ended else run_ended_event(ended)

        return _open_stream(
            gateway,
            request,
            identity,
            lambda fields: run in (fields.get("turn"), fields.get("run_id")),
            last_event_id,
            family,
            is_last=is_run_end,
            final_event=None if known is None else final_event,
        )

    @router.get("/api/spaces/{space}/events", response_model=None, responses=EVENT_RESPONSES)
    async def follow_space(
        request: Request,
        identity: Caller,
        space: SpaceId,
        last_event_id: LastEventId = None,
        family: Family = None,
    ) -> EventStreamResponse:
        """Follow a space: its messages, the visible calls as they proceed, and when agents work in it."""
        family = _require_family(family)
        await require_space(gateway, identity, space)
        store = await gateway.require_store()
        if last_event_id is not None and not is_number(last_event_id):
            raise Problem("bad_request", f"{last_event_id[:80]!r} is not the id of an event of a space.")
        access = StreamAccess(request, identity, gateway.runtime.clock, partial(may_read_space, store, identity, space))
        after = None if last_event_id is None else int(last_event_id)
        frames = space_frames(gateway.feed, store, space, after, access=access, family=family)
        return EventStreamResponse(frames, gateway.limiter.count_stream(identity))

    return router


def _open_stream(
    gateway: Gateway,
    connection: Request,
    identity: Identity,
    is_wanted: Callable[[Mapping[str, Any]], bool],
    last_event_id: str | None,
    family: str | None,
    **options: Any,
) -> EventStreamResponse:
    family = _require_family(family)

    def is_visible(fields: dict[str, Any]) -> bool:
        return is_wanted(fields) and gateway.may_see_event(identity, fields)

    after: int | None = None
    has_unknown_start = False
    if last_event_id is not None:
        try:
            after = gateway.feed.parse_event_id(last_event_id)
        except ValueError as error:
            raise Problem("bad_request", str(error)) from None
        has_unknown_start = after is None
    start = 0 if has_unknown_start else after
    access = StreamAccess(connection, identity, gateway.runtime.clock)
    request = StreamRequest(is_visible, start, has_unknown_start, family, access=access, **options)
    return EventStreamResponse(feed_frames(gateway.feed, request), gateway.limiter.count_stream(identity))


def _require_family(family: str | None) -> str | None:
    """The name of a family that was given by its name or number; raises `Problem` for an unknown one."""
    if family is not None and family not in FAMILIES:
        raise Problem("invalid_arguments", f"There is no family {family[:20]!r}. Known are {', '.join(FAMILIES)}.")
    return FAMILY_BY_NUMBER.get(family or "", family)


def _is_outcome(fields: Mapping[str, Any]) -> bool:
    return bool(fields["type"] == "CallEnded" and fields["outcome"]["status"] != "pending")


def _ended_event(details: Mapping[str, Any]) -> dict[str, Any]:
    """The last event of a call, from what is remembered of it."""
    names = ("call_id", "tool", "at", "user", "session", "turn", "parent")
    outcome = details["outcome"] or {"status": "done" if details["status"] == "ok" else "failed", "data": None}
    return {"type": "CallEnded", **{name: details[name] for name in names}, "outcome": outcome, "meta": {}}
