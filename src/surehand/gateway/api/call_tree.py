"""The route of a call's tree: the call that all began with, and the calls that it made, down to the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.gateway.api.call_history import CallHistoryEntry, list_memory_calls
from surehand.gateway.api.calls import CallId, require_call
from surehand.gateway.api.models import CallDetails
from surehand.gateway.api.requests import Caller, json_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.events.event_history import read_memory_events, read_stored_events
from surehand.gateway.gateway import Gateway
from surehand.store.store import Store

MAX_DEPTH = 20
MAX_ENTRIES = 5_000
"""Journal entries and events that are read to find nested calls: those of the time of the outermost call."""
TIME_MARGIN_SECONDS = 2.0
"""Entries are written in batches, so that of a nested call may carry a time outside that of its parent."""


class TreeCall(CallDetails):
    """A call of a tree, with when it started."""

    started_at: float | None = Field(None, description="Seconds since the epoch, as far as it is remembered.")


class CallTree(BaseModel):
    """A call with the calls around it and in it. A tree is bounded, and has no pages."""

    calls: list[TreeCall] = Field(description="The outermost call first, then all calls in it, to a depth of 20.")
    is_complete: bool = Field(
        description=f"False if the journal of that time has more than the {MAX_ENTRIES:,} entries that are read."
    )


@dataclass(frozen=True, slots=True)
class _KnownCalls:
    """Calls of a time by id, and the events that tell more of them."""

    calls: Mapping[str, CallHistoryEntry]
    events: Iterable[Mapping[str, Any]]
    is_complete: bool = True
    """Whether they are all calls of that time."""


def call_tree_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/calls/{call_id}/tree`."""
    router = APIRouter(tags=["calls"], route_class=StrictRoute)

    @router.get("/api/calls/{call_id}/tree", responses={200: {"model": CallTree}})
    async def show_call_tree(identity: Caller, call_id: CallId) -> Response:
        """Show the outermost call around a call and all calls in it, as far as they are remembered."""
        await require_call(gateway, identity, call_id, "read call")
        known = await _read_calls_around(gateway, call_id)
        visible = [
            each
            for each in _tree_of(call_id, known.calls)
            if gateway.may_see_call(identity, user=each.user, tool=each.tool, agent=each.agent)
        ]
        recorded = _recorded_fields(known.events)
        calls = [_describe(each, recorded.get(each.call_id, {})) for each in visible]
        return json_response({"calls": calls, "is_complete": known.is_complete})

    return router


def _describe(call: CallHistoryEntry, recorded: Mapping[str, Any]) -> dict[str, Any]:
    return {**asdict(call), "started_at": None, "arguments": None, "outcome": None, **recorded}


def _recorded_fields(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What events tell of calls beside the journal: start, arguments and outcome, by call id."""
    fields: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["type"] == "CallStarted":
            started = {"started_at": event["at"], "arguments": event["arguments"]}
            fields.setdefault(event["call_id"], {}).update(started)
        elif event["type"] == "CallEnded":
            fields.setdefault(event["call_id"], {})["outcome"] = event["outcome"]
    return fields


async def _read_calls_around(gateway: Gateway, call_id: str) -> _KnownCalls:
    """The calls that may belong to the tree of a call."""
    if not gateway.runtime.is_durable:
        page, next_cursor = list_memory_calls(gateway.feed, {}, MAX_ENTRIES, None)
        calls = {each.call_id: each for each in page}
        return _KnownCalls(calls, await read_memory_events(gateway.feed), next_cursor is None)
    store = await gateway.require_store()
    ancestors = await _read_ancestors(store, call_id)
    if not ancestors:
        return _KnownCalls({}, ())
    outermost = ancestors[-1]
    since = min(each.at - each.latency_ms / 1000 for each in ancestors) - TIME_MARGIN_SECONDS
    until = outermost.at + TIME_MARGIN_SECONDS
    entries = [*await store.journal.list(since=since, until=until, limit=MAX_ENTRIES)]
    calls = _newest_by_call([*ancestors, *map(CallHistoryEntry.from_entry, entries)])
    events = await read_stored_events(store, since, until, MAX_ENTRIES)
    return _KnownCalls(calls, events, is_complete=len(entries) < MAX_ENTRIES)


async def _read_ancestors(store: Store, call_id: str) -> list[CallHistoryEntry]:
    """A call and those that it is nested in, the outermost last."""
    found: list[CallHistoryEntry] = []
    wanted: str | None = call_id
    while wanted is not None and len(found) < MAX_DEPTH:
        entries = await store.journal.list(call=wanted, limit=1)
        if not entries:
            break
        found.append(CallHistoryEntry.from_entry(entries[0]))
        wanted = found[-1].parent
    return found


def _newest_by_call(entries: Iterable[CallHistoryEntry]) -> dict[str, CallHistoryEntry]:
    newest: dict[str, CallHistoryEntry] = {}
    for each in entries:
        known = newest.get(each.call_id)
        if known is None or (each.at, each.kind == "ended") > (known.at, known.kind == "ended"):
            newest[each.call_id] = each
    return newest


def _tree_of(call_id: str, calls: Mapping[str, CallHistoryEntry]) -> list[CallHistoryEntry]:
    """The outermost call around a call, and all calls under it."""
    root = call_id
    for _ in range(MAX_DEPTH):
        parent = calls[root].parent if root in calls else None
        if parent is None or parent not in calls:
            break
        root = parent
    tree = [calls[root]] if root in calls else []
    members = {root}
    for _ in range(MAX_DEPTH):
        level = [each for each in calls.values() if each.parent in members and each.call_id not in members]
        if not level:
            break
        tree += level
        members |= {each.call_id for each in level}
    return tree
