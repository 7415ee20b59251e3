"""Waits: calls that wait for a person, a browser or a webhook, and what became of them."""

from __future__ import annotations

import asyncio
import json
from math import inf
from typing import TYPE_CHECKING, Any, cast

from surehand.core.call import Principal
from surehand.core.clock import Timer, wake
from surehand.core.events import CallPending
from surehand.core.outcome import Outcome, Pending, WaitingFor
from surehand.core.quotas import Quota
from surehand.runtime.durability.call_record import build_ledger_row
from surehand.runtime.durability.json_arguments import json_arguments, load_json_arguments
from surehand.runtime.pending.answer import AnswerInProgress
from surehand.runtime.pending.pending_call import PendingCall as PendingCall
from surehand.runtime.pipeline.invocation import Invocation
from surehand.store.database import StoreUnavailable, UnexpectedRowCount, UnstorableValue
from surehand.store.serialization import dump_json
from surehand.store.tables import ledger as rows
from surehand.store.tables.ledger import LedgerRow
from surehand.store.tables.pending import UNCLAIMED_GRACE_SECONDS, PendingRound, PendingRow, open_round_statement

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store


class TooManyPendingCalls(Exception):
    """A user has as many calls that wait as it may have."""


class PendingCalls:
    """The waits of a runtime. The store keeps them; here is only what lives as long as the process."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self.invocations: dict[str, Invocation] = {}
        """Calls that wait and were made here, by id: their scope may offer what no store can keep."""
        self.waiting_callers: dict[str, asyncio.Future[bool | None]] = {}
        """Callers who wait for the answer themselves."""
        self.answers_in_progress: dict[str, AnswerInProgress] = {}
        self.user_quota: Quota[str] | None = None
        """How many of them each user may have, where that is bounded."""
        self.open_count = 0
        """How many waits are open, as far as this runtime knows."""
        self._expiry_timer: Timer | None = None
        self._expiry_timer_at = inf

    async def find(self, call_id: str, viewer: Principal) -> PendingRow | None:
        """A call that the viewer may know of; to a stranger it looks like an unknown id."""
        if (store := self._services.store) is None:
            return None
        try:
            return await store.pending.find(call_id, viewer.user, viewer.session)
        except UnstorableValue:  # nothing was ever kept under such a name
            return None

    async def ended_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """How a call that waited has ended, if the viewer may know of it."""
        held = await self.find(call_id, viewer) if call_id else None
        return self._services.ledger.stored_outcome(held.call) if held and held.call.state == "ended" else None

    async def current_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call that has waited, or what it waits for."""
        held = await self.find(call_id, viewer)
        return None if held is None else self.outcome_of_row(held)

    def outcome_of_row(self, row: PendingRow) -> Outcome:
        """The same, of a call that was read already."""
        call, wait = row.call, row.open_round
        if call.state in ("ended", "unknown"):
            return self._services.ledger.stored_outcome(call)
        if wait is not None and call.call_id not in self.answers_in_progress:
            return pending_call_from_row(row, wait).to_outcome()
        return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")

    async def list_for(self, viewer: Principal, grace_seconds: float = UNCLAIMED_GRACE_SECONDS) -> list[PendingCall]:
        """The open waits of the viewer, and calls of theirs that were answered and that nobody goes on with."""
        if (store := self._services.store) is None:
            return []
        try:
            found = await store.pending.list_open(viewer.user, viewer.session, grace_seconds=grace_seconds)
        except UnstorableValue:  # nothing was ever kept under such a name
            return []
        return [
            pending_call_from_row(each, each.rounds[-1])
            for each in found
            if each.call.call_id not in self.answers_in_progress
        ]

    async def park(self, invocation: Invocation, pending: Pending) -> PendingCall | Outcome:
        """Keep a pending call: the wait, or what became of the call where somebody else was first."""
        if invocation.runs_elsewhere and pending.call_id == invocation.id:
            return pending  # it is only told that the same call runs already
        store, call_id = await self._services.open_store(), invocation.id
        inner = await self._find_inner_call(pending.call_id, invocation)
        message = pending.message or f"{invocation.listing.name} waits for {pending.waiting_for}."
        expires_at = None if inner else pending.expires_at
        patience = None if inner else self._services.defaults.pending_ttl or None
        call, request, note = self._build_ledger_row(invocation), dump_json(pending.request), dump_json(pending.state)
        size = len(call.arguments) + len(request) + len(note)
        if (
            self.user_quota is not None
            and call_id not in self.user_quota
            and not self.user_quota.has_room(call.user_id, size)
        ):
            raise TooManyPendingCalls
        wait = open_round_statement(
            call, pending.waiting_for, message, request=request, provider_state=note,
            inner_call_id=inner, expires_at=expires_at, timeout_seconds=patience,
        )  # fmt: skip
        told = [
            *self._audit_statements(store, invocation, pending),
            *self._services.visible_calls.amend_statements(invocation, pending),
        ]
        steps = [rows.wait_statement(call), wait, *told]
        try:
            results = await store.write(steps)
        except UnexpectedRowCount:
            return await self.current_outcome(call_id, Principal()) or pending
        except (asyncio.CancelledError, StoreUnavailable):
            if call.owner is not None:  # its handler has run: nobody else can say that it waits
                self._services.ledger.write_retry.retry_later(call_id, steps)
            raise
        if self.user_quota is not None:
            self.user_quota.acquire(call_id, call.user_id, size)
        [asked_at] = results[1]
        return self._register_pending(invocation, pending, message, **asked_at)

    def _build_ledger_row(self, invocation: Invocation) -> LedgerRow:
        """What the id stands for never changes, whatever a person or the handler made of the arguments."""
        fence, before = invocation.fence, invocation.ledger_row
        call = build_ledger_row(
            invocation, owner_id=None if fence is None else self._services.owner_id, fence=fence or 0
        )
        if before is None:
            return call
        asked_with = before.arguments if invocation.may_have_run else call.arguments
        return call._replace(fingerprint=before.fingerprint, arguments=asked_with)

    def _register_pending(
        self,
        invocation: Invocation,
        pending: Pending,
        message: str,
        *,
        round: int,
        created_at: float,
        expires_at: float | None,
    ) -> PendingCall:
        who, call_id = invocation.principal, invocation.id
        if not invocation.round:
            self.open_count += 1
        invocation.round, invocation.fence, invocation.is_claimed, invocation.is_claiming = round, None, False, False
        self.invocations[call_id] = invocation
        self._services.visible_calls.mark_written(invocation, pending)
        self.answers_in_progress.pop(call_id, None)  # it waits again, and can be answered again
        self.schedule_expiry(expires_at)
        # Arguments may be many, and only who listens is shown them.
        arguments = json_arguments(invocation) if self._services.listeners.callbacks else {}
        wait = PendingCall(
            call_id, invocation.listing.name, arguments, pending.waiting_for, message,
            pending.request, expires_at, created_at, who.user, who.session, round,
        )  # fmt: skip
        self._emit_pending(wait)
        if invocation.on_end is not None:  # whoever answered last time need not wait for the next answer
            tell, invocation.on_end = invocation.on_end, None
            tell(wait.to_outcome())
        return wait

    def _audit_statements(self, store: Store, invocation: Invocation, pending: Pending) -> list[Any]:
        if not self._services.is_durable:
            return []
        name, user = invocation.listing.name, invocation.principal.user
        detail = {"waiting_for": pending.waiting_for}
        return [
            store.audit.row_statement("wait", invocation.id, name, user=user, detail=detail),
            *self._services.journal_statements(invocation, "pending", pending.waiting_for),
        ]

    async def _find_inner_call(self, call_id: str, invocation: Invocation) -> str | None:
        """The call that this one waits for: one of its own user's, and none that waits for this one in turn."""
        held = await self.find(call_id, invocation.principal) if call_id else None
        first = held.call.call_id if held else None
        while held is not None:
            if held.call.call_id == invocation.id:
                return None
            inner = held.open_round.inner_call_id if held.open_round else None
            held = await self.find(inner, Principal()) if inner else None
        return first

    def schedule_expiry(self, expires_at: float | None) -> None:
        """Wake the sweeper when the next wait has outlived its time."""
        if expires_at is None or expires_at >= self._expiry_timer_at:
            return
        self.cancel_expiry_timer()
        self._expiry_timer_at = expires_at
        delay = max(expires_at - self._services.clock.time(), 0.0)
        self._expiry_timer = self._services.clock.call_later(delay, self._on_expiry_timer)

    def _on_expiry_timer(self) -> None:
        self.cancel_expiry_timer()
        self._services.expire_overdue_calls()

    def cancel_expiry_timer(self) -> None:
        """Nothing wakes the sweeper any more."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._expiry_timer, self._expiry_timer_at = None, inf

    def _emit_pending(self, pending_call: PendingCall) -> None:
        if self._services.listeners.callbacks:
            self._services.listeners.emit(
                CallPending(
                    pending_call.call_id, pending_call.tool, pending_call.waiting_for, pending_call.message, pending_call.request, pending_call.arguments,
                    pending_call.expires_at, pending_call.created_at,
                )
            )  # fmt: skip

    async def wait_for_answer(self, invocation: Invocation, timeout_seconds: float) -> bool:
        """Wait with the caller for the answer; false when its patience ends first, and the wait stays open."""
        invocation.make_interruptible()
        live = self.waiting_callers[invocation.id] = invocation.answer_future = (
            asyncio.get_running_loop().create_future()
        )
        timer = self._services.clock.call_later(timeout_seconds, wake, live) if timeout_seconds < inf else None
        try:
            return bool(await live)
        finally:
            if timer is not None:
                timer.cancel()
            self.waiting_callers.pop(invocation.id, None)
            invocation.answer_future = None

    def drop_arguments(self, invocation: Invocation) -> None:
        """Its caller is told that it waits: what it goes on with is in the store, and need not be kept here too."""
        if self.invocations.get(invocation.id) is invocation:
            resting = self.invocations[invocation.id] = Invocation(invocation.scope, invocation.requested_name, {})
            resting.listing, resting.assigned_id, resting.round = invocation.listing, invocation.id, invocation.round

    def on_call_ended(self, invocation: Invocation) -> None:
        """The call has its outcome."""
        self.remove(invocation.id)
        if invocation.round:
            self.open_count -= 1

    def remove(self, call_id: str) -> Invocation | None:
        """It does not wait any more; the call, if it was made here."""
        if self.user_quota is not None:
            self.user_quota.release(call_id)
        return self.invocations.pop(call_id, None)


def pending_call_from_row(row: PendingRow, pending_round: PendingRound) -> PendingCall:
    """A wait as the store keeps it, for people to read."""
    call, kind, message, until = row.call, pending_round.waiting_for, pending_round.message, pending_round.expires_at
    if row.is_ready:
        kind, until = "result", pending_round.answer_expires_at
        message = f"{call.tool} was let run, and no runtime that has it has taken it up yet."
    return PendingCall(
        call.call_id, call.tool, load_json_arguments(call.arguments), cast(WaitingFor, kind), message, json.loads(pending_round.request),
        until, pending_round.created_at, call.user_id, call.session, pending_round.round,
    )  # fmt: skip
