"""Pending calls: looks up calls that wait for a person, a browser or a webhook in the store.

`Scope.pending`, the answers and the store maintenance read them here; `pending_call_writer` stores them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome, Pending, WaitingFor
from surehand.runtime.durability.call_record import StoredOutcomes, identity_of_stored_call
from surehand.runtime.invocation.json_arguments import load_json_arguments
from surehand.runtime.named_scopes import NamedScopes
from surehand.runtime.pending.following_calls import find_followed_run, outcome_of_run
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.pending.pending_call import PendingCall, absent_agent_message
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import UnstorableValue
from surehand.store.tables.pending import (
    BEFORE_ALL,
    UNCLAIMED_GRACE_SECONDS,
    PendingPosition,
    PendingRound,
    PendingRow,
)

ROWS_PER_READ = 500
"""Pending calls that are read at once: each holds its arguments and its question."""


class PendingCalls:
    """The pending calls in the store, as the users see them whose calls they are."""

    def __init__(
        self,
        store: RuntimeStore,
        local: LocalPendingCalls,
        outcomes: StoredOutcomes,
        catalogue: Catalogue,
        named_scopes: NamedScopes[Any],
    ) -> None:
        self._store = store
        self._local = local
        self._outcomes = outcomes
        self._catalogue = catalogue
        self._named_scopes = named_scopes

    async def find(self, call_id: str, viewer: Principal) -> PendingRow | None:
        """Find a call that the viewer may see; None for any other call, as for an unknown id."""
        if (store := self._store.current) is None:
            return None
        try:
            return await store.pending.find(call_id, viewer.user, viewer.session)
        except UnstorableValue:  # an id or user that cannot be stored was never stored
            return None

    async def find_followers(self, call_id: str) -> Sequence[str]:
        """The ids of the calls that wait for this one."""
        store = await self._store.open()
        return await store.pending.find_followers(call_id)

    async def ended_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call that was pending and has ended, if the viewer may see it."""
        row = await self.find(call_id, viewer) if call_id else None
        if row is None or row.call.state != "ended":
            return None
        return self._outcomes.outcome_of(row.call)

    async def outcome_of_followed_run(self, run_id: str, viewer: Principal) -> Outcome | None:
        """What a call that waits for this run ends with; None while the run goes on."""
        run = await find_followed_run(await self._store.open(), run_id, viewer)
        if run is None:
            return Failed("not_found", f"There is no run {run_id[:80]} to wait for.", executed=True)
        return outcome_of_run(run)

    async def current_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call that was or is pending; None if the viewer may not see it."""
        row = await self.find(call_id, viewer)
        return None if row is None else self.outcome_of_row(row)

    def outcome_of_row(self, row: PendingRow) -> Outcome:
        """The outcome of a call whose row was read: its end, its open question, or that it is being resumed."""
        call = row.call
        open_round = row.open_round
        if call.state in ("ended", "unknown"):
            return self._outcomes.outcome_of(call)
        if open_round is not None and call.call_id not in self._local.answers_in_progress:
            return pending_call_from_row(row, open_round).to_outcome()
        return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")

    async def list_for(
        self,
        viewer: Principal,
        *,
        limit: int | None = None,
        after: str | None = None,
        grace_seconds: float = UNCLAIMED_GRACE_SECONDS,
    ) -> list[PendingCall]:
        """The viewer's pending calls, and answered calls that no runtime has resumed within the grace period."""
        position = BEFORE_ALL if after is None else PendingPosition.from_cursor(after)
        if (store := self._store.current) is None:
            return []
        found: list[PendingCall] = []
        page_size = ROWS_PER_READ if limit is None else min(max(limit, 0), ROWS_PER_READ)
        try:
            while limit is None or len(found) < limit:
                rows = await store.pending.list_open(
                    viewer.user, viewer.session, limit=page_size, after=position, grace_seconds=grace_seconds
                )
                found += [
                    pending_call_from_row(row, row.rounds[-1], self.find_listing(row), self._missing_agent(row))
                    for row in rows
                    if row.call.call_id not in self._local.answers_in_progress
                ]
                if len(rows) < page_size:
                    break
                position = PendingPosition(rows[-1].rounds[-1].created_at, rows[-1].call.call_id)
        except UnstorableValue:  # an id or user that cannot be stored was never stored
            return []
        return found[:limit]

    def find_listing(self, row: PendingRow) -> Listing | None:
        """The tool of a stored call: the one it was made with in this process, else the catalogue's."""
        invocation = self._local.invocations.get(row.call.call_id)
        return self._catalogue.find(row.call.tool) if invocation is None else invocation.listing

    def _missing_agent(self, row: PendingRow) -> str | None:
        """The agent that an answered call waits for, because its tool is the own tool of an agent that is not here."""
        return self._named_scopes.missing_agent(row.call) if row.is_ready else None


def pending_call_from_row(
    row: PendingRow, pending_round: PendingRound, listing: Listing | None = None, missing_agent: str | None = None
) -> PendingCall:
    """Convert a stored round to what is shown to the people who answer."""
    call = row.call
    waiting_for = pending_round.waiting_for
    message = pending_round.message
    expires_at = pending_round.expires_at
    if row.is_ready:
        waiting_for = "result"
        message = f"{call.tool} was let run, and no runtime that has it has taken it up yet."
        if missing_agent is not None:
            message = f"{call.tool} was let run. {absent_agent_message(call.tool, missing_agent)}"
        expires_at = pending_round.answer_expires_at
    return PendingCall(
        call_id=call.call_id,
        tool=call.tool,
        arguments=load_json_arguments(call.arguments),
        waiting_for=cast(WaitingFor, waiting_for),
        message=message,
        request=json.loads(pending_round.request),
        expires_at=expires_at,
        created_at=pending_round.created_at,
        round=pending_round.round,
        missing_agent=missing_agent,
        **identity_of_stored_call(call, listing)._asdict(),
    )
