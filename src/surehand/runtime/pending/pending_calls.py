"""Pending calls: stores calls that wait for a person, a browser or a webhook, and looks them up.

The stage `park` stores them; `Scope.pending`, the decisions and the store maintenance read them.
"""

from __future__ import annotations

import asyncio
import json
from math import inf
from typing import TYPE_CHECKING, Any, cast

from surehand.catalogue.listing import Listing
from surehand.core.call import CallIdentity, Principal
from surehand.core.clock import Timer, wake
from surehand.core.events import CallPending
from surehand.core.outcome import Failed, Outcome, Pending, WaitingFor
from surehand.core.quotas import Quota
from surehand.runtime.durability.call_record import build_ledger_row, identity_of_stored_call
from surehand.runtime.durability.json_arguments import json_arguments, load_json_arguments
from surehand.runtime.pending.answer import AnswerInProgress
from surehand.runtime.pending.followed_run import find_followed_run, outcome_of_run
from surehand.runtime.pending.pending_call import PendingCall as PendingCall
from surehand.runtime.pending.pending_call import absent_agent_message
from surehand.runtime.pending.repeated_calls import is_following
from surehand.runtime.pipeline.invocation import Invocation
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount, UnstorableValue
from surehand.store.serialization import dump_json
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.ledger import LedgerRow
from surehand.store.tables.pending import (
    BEFORE_ALL,
    UNCLAIMED_GRACE_SECONDS,
    PendingPosition,
    PendingRound,
    PendingRow,
    open_round_statement,
)

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store


ROWS_PER_READ = 500
"""Pending calls that are read at once: each holds its arguments and its question."""
MAX_STORE_ATTEMPTS = 10
"""How often a call is stored again because an equal one began or ended to wait at the same moment."""


class TooManyPendingCalls(Exception):
    """The user has reached the quota of pending calls."""


class PendingCalls:
    """The pending calls of a runtime. The store holds them; this object holds what exists only in this process."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self.invocations: dict[str, Invocation] = {}
        """Pending calls that this process made, by id: their scopes hold values that cannot be stored."""
        self.waiting_callers: dict[str, asyncio.Future[bool | None]] = {}
        """Futures of the callers that wait for the answer instead of returning Pending, by call id."""
        self.answers_in_progress: dict[str, AnswerInProgress] = {}
        self.user_quota: Quota[str] | None = None
        """Limit on pending calls per user, if there is one."""
        self.open_count = 0
        """Number of pending calls, as far as this runtime knows."""
        self._expiry_timer: Timer | None = None
        self._expiry_timer_at = inf

    async def find(self, call_id: str, viewer: Principal) -> PendingRow | None:
        """Find a call that the viewer may see; None for any other call, as for an unknown id."""
        if (store := self._services.store) is None:
            return None
        try:
            return await store.pending.find(call_id, viewer.user, viewer.session)
        except UnstorableValue:  # an id or user that cannot be stored was never stored
            return None

    async def ended_outcome(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call that was pending and has ended, if the viewer may see it."""
        row = await self.find(call_id, viewer) if call_id else None
        if row is None or row.call.state != "ended":
            return None
        return self._services.ledger.stored_outcome(row.call)

    async def outcome_of_followed_run(self, run_id: str, viewer: Principal) -> Outcome | None:
        """What a call that waits for this run ends with; None while the run goes on."""
        run = await find_followed_run(await self._services.open_store(), run_id, viewer)
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
            return self._services.ledger.stored_outcome(call)
        if open_round is not None and call.call_id not in self.answers_in_progress:
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
        if (store := self._services.store) is None:
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
                    if row.call.call_id not in self.answers_in_progress
                ]
                if len(rows) < page_size:
                    break
                position = PendingPosition(rows[-1].rounds[-1].created_at, rows[-1].call.call_id)
        except UnstorableValue:  # an id or user that cannot be stored was never stored
            return []
        return found[:limit]

    def find_listing(self, row: PendingRow) -> Listing | None:
        """The tool of a stored call: the one it was made with in this process, else the catalogue's."""
        invocation = self.invocations.get(row.call.call_id)
        return self._services.catalogue.find(row.call.tool) if invocation is None else invocation.listing

    def _missing_agent(self, row: PendingRow) -> str | None:
        """The agent that an answered call waits for, because its tool is the own tool of an agent that is not here."""
        return self._services.named_scopes.missing_agent(row.call) if row.is_ready else None

    async def park(self, invocation: Invocation, pending: Pending) -> PendingCall | Outcome:
        """Store a pending call; returns it, or the outcome of the call if another invocation was first.

        A call that repeats one of its session which waits is stored as one that follows it.
        """
        if invocation.runs_elsewhere and pending.call_id == invocation.id:
            return pending  # only says that the same call is running; there is nothing to store
        repeated_calls = self._services.repeated_calls
        for _ in range(MAX_STORE_ATTEMPTS):
            inner_call_id = await self._find_inner_call(pending.call_id, invocation)
            # A call whose handler has run does not follow another one: its effect is its own.
            can_follow = inner_call_id is None and pending.run_id is None and not invocation.may_have_run
            key = repeated_calls.key_of(invocation) if can_follow else None
            guard = [] if key is None else repeated_calls.guard_statements(invocation, key, locks=True)
            try:
                return await self._store_round(invocation, pending, inner_call_id, guard)
            except UnexpectedRowCount:
                first = await repeated_calls.find_first(invocation) if guard else None
                if not guard:
                    return await self.current_outcome(invocation.id, Principal()) or pending
                if first is not None:
                    pending = first.to_pending(invocation.listing.name)
        raise StoreUnavailable(f"Call {invocation.id} could not be stored, because equal calls changed all the time.")

    async def _store_round(
        self, invocation: Invocation, pending: Pending, inner_call_id: str | None, guard: list[Statement]
    ) -> PendingCall:
        """Store the question of a call in one transaction; raises `UnexpectedRowCount` if the guard objects."""
        store = await self._services.open_store()
        call_id = invocation.id
        message = pending.message or f"{invocation.listing.name} waits for {pending.waiting_for}."
        # A call that waits for another one, or for a run, has no expiry of its own: it ends with the other.
        ends_with_other = bool(inner_call_id or pending.run_id)
        expires_at = None if ends_with_other else pending.expires_at
        timeout_seconds = None if ends_with_other else self._time_to_live(pending)
        post_statements = await self._services.visible_calls.post_statements(invocation)
        call = self._build_ledger_row(invocation)
        if is_following(pending):
            call = call._replace(repeat_key=None)  # a further repetition follows the first call, not this one
        request = dump_json(pending.request)
        provider_state = dump_json(pending.state)
        size = len(call.arguments) + len(request) + len(provider_state)
        self._check_quota(call, size)
        open_round = open_round_statement(
            call,
            pending.waiting_for,
            message,
            request=request,
            provider_state=provider_state,
            inner_call_id=inner_call_id,
            inner_run_id=pending.run_id,
            expires_at=expires_at,
            timeout_seconds=timeout_seconds,
        )
        statements = [
            *guard,
            ledger_table.wait_statement(call),
            open_round,
            *self._audit_statements(store, invocation, pending),
            *post_statements,
            *self._services.visible_calls.amend_statements(invocation, pending),
        ]
        try:
            results = await store.write(statements)
        except UnexpectedRowCount:
            if post_statements:
                invocation.message_id = None  # the message was not written either
            raise
        except (asyncio.CancelledError, StoreUnavailable):
            if call.owner is not None:  # the handler has run: no other process knows that the call is pending
                self._services.ledger.write_retry.retry_later(call_id, statements)
            raise
        if self.user_quota is not None:
            self.user_quota.acquire(call_id, call.user_id, size)
        [opened] = results[len(guard) + 1]
        return self._register_pending(invocation, pending, message, **opened)

    def _time_to_live(self, pending: Pending) -> float | None:
        """Seconds after which an unanswered call expires; None if it never does."""
        seconds = self._services.defaults.pending_ttl if pending.time_to_live is None else pending.time_to_live
        return None if not seconds or seconds == inf else seconds

    def _check_quota(self, call: LedgerRow, size: int) -> None:
        quota = self.user_quota
        if quota is not None and call.call_id not in quota and not quota.has_room(call.user_id, size):
            raise TooManyPendingCalls

    def _build_ledger_row(self, invocation: Invocation) -> LedgerRow:
        """The ledger row to store; the fingerprint of an id never changes, even if arguments were edited."""
        fence = invocation.fence
        owner_id = None if fence is None else self._services.owner_id
        call = build_ledger_row(invocation, owner_id=owner_id, fence=fence or 0)
        stored = invocation.ledger_row
        if stored is None:
            return call
        arguments = stored.arguments if invocation.may_have_run else call.arguments
        return call._replace(fingerprint=stored.fingerprint, arguments=arguments)

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
        """Update the state in this process after a pending call was stored, and emit its event."""
        call_id = invocation.id
        if not invocation.round:
            self.open_count += 1
        invocation.round = round
        invocation.fence = None
        invocation.is_claimed = False
        invocation.is_claiming = False
        self.invocations[call_id] = invocation
        self._services.visible_calls.mark_written(invocation, pending)
        self.answers_in_progress.pop(call_id, None)  # the call is pending again, and can be answered again
        self.schedule_expiry(expires_at)
        # Converting the arguments costs time: only the event needs them here.
        arguments = json_arguments(invocation) if self._services.listeners.callbacks else {}
        pending_call = PendingCall(
            call_id=call_id,
            tool=invocation.listing.name,
            arguments=arguments,
            waiting_for=pending.waiting_for,
            message=message,
            request=pending.request,
            expires_at=expires_at,
            created_at=created_at,
            round=round,
            **invocation.identity._asdict(),
        )
        invocation.emit_deferred_start()
        self._emit_pending(pending_call, invocation.identity)
        if invocation.on_end is not None:  # the task that gave the last answer does not wait for the next one
            on_end, invocation.on_end = invocation.on_end, None
            on_end(pending_call.to_outcome())
        return pending_call

    def _audit_statements(self, store: Store, invocation: Invocation, pending: Pending) -> list[Any]:
        """The rows of audit and journal for a call that becomes pending."""
        if not self._services.is_durable:
            return []
        name = invocation.listing.name
        detail: dict[str, str] = {"waiting_for": pending.waiting_for}
        if pending.waiting_for == "approval" and invocation.asks_again_because:
            detail["asks_again_because"] = invocation.asks_again_because
        return [
            store.audit.row_statement("wait", invocation.id, name, identity=invocation.identity, detail=detail),
            *self._services.journal_statements(invocation, "pending", pending.waiting_for),
        ]

    async def _find_inner_call(self, call_id: str, invocation: Invocation) -> str | None:
        """The id of the call that this one waits for; None if the user may not see it, or it waits for this one."""
        row = await self.find(call_id, invocation.principal) if call_id else None
        if row is None and call_id:
            return call_id if await self._runs_elsewhere(call_id, invocation) else None
        first = row.call.call_id if row else None
        while row is not None:
            if row.call.call_id == invocation.id:
                return None
            inner_call_id = row.open_round.inner_call_id if row.open_round else None
            row = await self.find(inner_call_id, Principal()) if inner_call_id else None
        return first

    async def _runs_elsewhere(self, call_id: str, invocation: Invocation) -> bool:
        """Whether a call that never waited is being run, for the same user and session, by another process or task."""
        call = await self._services.ledger.find(call_id)
        if call is None or call.call_id == invocation.id:
            return False
        principal = invocation.principal
        is_visible = (call.user_id, call.session) == (principal.user, principal.session)
        return is_visible and call.state in ("running", "unknown")

    def schedule_expiry(self, expires_at: float | None) -> None:
        """Start the timer that ends overdue calls, unless it fires earlier anyway."""
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
        """Stop the timer that ends overdue calls."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._expiry_timer = None
        self._expiry_timer_at = inf

    def _emit_pending(self, pending_call: PendingCall, identity: CallIdentity) -> None:
        if not self._services.listeners.callbacks:
            return
        event = CallPending(
            pending_call.call_id,
            pending_call.tool,
            pending_call.waiting_for,
            pending_call.message,
            pending_call.request,
            pending_call.arguments,
            pending_call.expires_at,
            pending_call.created_at,
            *identity,
        )
        self._services.listeners.emit(event)

    async def wait_for_answer(self, invocation: Invocation, timeout_seconds: float) -> bool:
        """Keep the caller waiting for the answer; False on timeout, and the call stays pending."""
        invocation.make_interruptible()
        answered: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self.waiting_callers[invocation.id] = answered
        invocation.answer_future = answered
        timer = self._services.clock.call_later(timeout_seconds, wake, answered) if timeout_seconds < inf else None
        try:
            return bool(await answered)
        finally:
            if timer is not None:
                timer.cancel()
            self.waiting_callers.pop(invocation.id, None)
            invocation.answer_future = None

    def drop_arguments(self, invocation: Invocation) -> None:
        """Replace a parked invocation by one without arguments: they are in the store, and need no memory here."""
        if self.invocations.get(invocation.id) is invocation:
            reduced = Invocation(invocation.scope, invocation.requested_name, {})
            reduced.listing = invocation.listing
            reduced.assigned_id = invocation.id
            reduced.round = invocation.round
            self.invocations[invocation.id] = reduced

    def on_call_ended(self, invocation: Invocation) -> None:
        """Forget a call that has its outcome."""
        self.remove(invocation.id)
        if invocation.round:
            self.open_count -= 1

    def remove(self, call_id: str) -> Invocation | None:
        """Forget a call that is no longer pending; returns its invocation if this process made it."""
        if self.user_quota is not None:
            self.user_quota.release(call_id)
        return self.invocations.pop(call_id, None)


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
