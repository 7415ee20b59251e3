"""The route of a call's tree: the call that all began with, and the calls that it made, down to the last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from fastapi import APIRouter
from starlette.responses import Response

from surehand.gateway.access.identity import Identity
from surehand.gateway.api.call_history import CallHistoryEntry, list_memory_calls
from surehand.gateway.api.calls import CallId, find_call, unknown_call
from surehand.gateway.api.models import CallPage
from surehand.gateway.api.requests import Caller, page_response
from surehand.gateway.gateway import Gateway
from surehand.store.store import Store

MAX_DEPTH = 20
MAX_JOURNAL_ENTRIES = 5_000
"""Entries that are read to find nested calls: those of the time in which the outermost call ran."""
TIME_MARGIN_SECONDS = 1.0
"""Entries are written in batches, so that of a nested call may carry a time outside that of its parent."""


def call_tree_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/calls/{call_id}/tree`."""
    router = APIRouter(tags=["calls"])

    @router.get("/api/calls/{call_id}/tree", responses={200: {"model": CallPage}})
    async def show_call_tree(identity: Caller, call_id: CallId) -> Response:
        """Show the outermost call around a call and all calls in it, as far as they are remembered."""
        if await find_call(gateway, identity, call_id) is None:
            raise unknown_call(call_id)
        known = await _calls_around(gateway, call_id)
        tree = _tree_of(call_id, known)
        return page_response([asdict(each) for each in tree if _may_see(gateway, identity, each)], None)

    return router


def _may_see(gateway: Gateway, identity: Identity, call: CallHistoryEntry) -> bool:
    return gateway.may_see_call(identity, user=call.user, tool=call.tool)


async def _calls_around(gateway: Gateway, call_id: str) -> dict[str, CallHistoryEntry]:
    """The calls that may belong to the tree of a call, by id."""
    if not gateway.runtime.is_durable:
        page, _ = list_memory_calls(gateway.feed, {}, MAX_JOURNAL_ENTRIES, None)
        return {each.call_id: each for each in page}
    store = await gateway.require_store()
    ancestors = await _read_ancestors(store, call_id)
    if not ancestors:
        return {}
    outermost = ancestors[-1]
    begin = min(each.at - each.latency_ms / 1000 for each in ancestors) - TIME_MARGIN_SECONDS
    until = outermost.at + TIME_MARGIN_SECONDS if outermost.kind == "ended" else None
    entries = await store.journal.list(since=begin, until=until, limit=MAX_JOURNAL_ENTRIES)
    return _newest_by_call([*ancestors, *map(CallHistoryEntry.from_entry, entries)])


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


def _tree_of(call_id: str, calls: dict[str, CallHistoryEntry]) -> list[CallHistoryEntry]:
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
