"""Pending call writer: stores a call that has to wait with its question, in one transaction, for the stage `park`."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

from surehand.core.call import CallIdentity, Principal
from surehand.core.events import CallPending
from surehand.core.outcome import Outcome, Pending
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import StoredOutcomes, build_ledger_row
from surehand.runtime.durability.repeated_calls import RepeatedCalls, is_following
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.invocation.json_arguments import json_arguments
from surehand.runtime.listeners import Listeners
from surehand.runtime.pending.local_calls import ExpiryTimer, LocalPendingCalls
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.running_calls import CallEnds
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
from surehand.store.serialization import dump_json
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.ledger import LedgerRow
from surehand.store.tables.pending import open_round_statement

if TYPE_CHECKING:
    from surehand.store.store import Store

MAX_STORE_ATTEMPTS = 10
"""How often a call is stored again because an equal one began or ended to wait at the same moment."""


class TooManyPendingCalls(Exception):
    """The user has reached the quota of pending calls."""


class PendingCallWriter:
    """Stores pending calls, and tells listeners about them."""

    def __init__(
        self,
        store: RuntimeStore,
        pending_calls: PendingCalls,
        local: LocalPendingCalls,
        *,
        outcomes: StoredOutcomes,
        repeated_calls: RepeatedCalls,
        messages: CallMessages,
        journal: StoreJournal,
        write_retry: WriteRetry,
        expiry_timer: ExpiryTimer,
        listeners: Listeners,
        call_ends: CallEnds,
        default_time_to_live: float | None,
    ) -> None:
        self._store = store
        self._pending_calls = pending_calls
        self._local = local
        self._outcomes = outcomes
        self._repeated_calls = repeated_calls
        self._messages = messages
        self._journal = journal
        self._write_retry = write_retry
        self._expiry_timer = expiry_timer
        self._listeners = listeners
        self._call_ends = call_ends
        self._default_time_to_live = default_time_to_live

    async def write(self, invocation: Invocation, pending: Pending) -> PendingCall | Outcome:
        """Store a pending call; returns it, or the outcome of the call if another invocation was first.

        A call that repeats one of its session which waits is stored as one that follows it.
        """
        if invocation.claim.belongs_to_other_pass and pending.call_id == invocation.id:
            return pending  # only says that the same call is running; there is nothing to store
        repeated_calls = self._repeated_calls
        for _ in range(MAX_STORE_ATTEMPTS):
            inner_call_id = await self._find_inner_call(pending.call_id, invocation)
            # A call whose handler has run does not follow another one: its effect is its own.
            can_follow = inner_call_id is None and pending.run_id is None and not invocation.may_have_executed
            key = repeated_calls.key_of(invocation) if can_follow else None
            guard = [] if key is None else repeated_calls.guard_statements(invocation, key, locks=True)
            try:
                return await self._store_round(invocation, pending, inner_call_id, guard)
            except UnexpectedRowCount:
                first = await repeated_calls.find_first(invocation) if guard else None
                if not guard:
                    return await self._pending_calls.current_outcome(invocation.id, Principal()) or pending
                if first is not None:
                    pending = first.to_pending(invocation.listing.name)
        raise StoreUnavailable(f"Call {invocation.id} could not be stored, because equal calls changed all the time.")

    async def _store_round(
        self, invocation: Invocation, pending: Pending, inner_call_id: str | None, guard: list[Statement]
    ) -> PendingCall:
        """Store the question of a call in one transaction; raises `UnexpectedRowCount` if the guard objects."""
        store = await self._store.open()
        call_id = invocation.id
        message = pending.message or f"{invocation.listing.name} waits for {pending.waiting_for}."
        # A call that waits for another one, or for a run, has no expiry of its own: it ends with the other.
        ends_with_other = bool(inner_call_id or pending.run_id)
        expires_at = None if ends_with_other else pending.expires_at
        timeout_seconds = None if ends_with_other else self._time_to_live(pending)
        post_statements = await self._messages.post_statements(invocation)
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
            *self._messages.amend_statements(invocation, pending),
        ]
        try:
            results = await store.write(statements)
        except UnexpectedRowCount:
            if post_statements:
                invocation.set_message(invocation.message._replace(id=None))  # the message was not written either
            raise
        except (asyncio.CancelledError, StoreUnavailable):
            if call.owner is not None:  # the handler has run: no other process knows that the call is pending
                self._write_retry.retry_later(call_id, statements)
            raise
        if self._local.user_quota is not None:
            self._local.user_quota.acquire(call_id, call.user_id, size)
        [opened] = results[len(guard) + 1]
        return self._register_pending(invocation, pending, message, **opened)

    def _time_to_live(self, pending: Pending) -> float | None:
        """Seconds after which an unanswered call expires; None if it never does."""
        seconds = self._default_time_to_live if pending.time_to_live is None else pending.time_to_live
        return None if not seconds or seconds == inf else seconds

    def _check_quota(self, call: LedgerRow, size: int) -> None:
        quota = self._local.user_quota
        if quota is not None and call.call_id not in quota and not quota.has_room(call.user_id, size):
            raise TooManyPendingCalls

    def _build_ledger_row(self, invocation: Invocation) -> LedgerRow:
        """The ledger row to store; the fingerprint of an id never changes, even if arguments were edited."""
        fence = invocation.claim.fence
        owner_id = None if fence is None else self._store.owner_id
        call = build_ledger_row(invocation, owner_id=owner_id, fence=fence or 0)
        stored = invocation.stored.row
        if stored is None:
            return call
        arguments = stored.arguments if invocation.may_have_executed else call.arguments
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
        if not invocation.resumption.round:
            self._local.open_count += 1
        invocation.wait_again(round)
        self._local.invocations[call_id] = invocation
        self._messages.mark_written(invocation, pending)
        self._local.answers_in_progress.pop(call_id, None)  # the call is pending again, and can be answered again
        self._expiry_timer.schedule(expires_at)
        # Converting the arguments costs time: only the event needs them here.
        arguments = json_arguments(invocation) if self._listeners.callbacks else {}
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
        self._listeners.release(invocation)
        self._emit_pending(pending_call, invocation.identity)
        if self._call_ends.resumed_calls:  # the task that gave the last answer does not wait for the next one
            self._call_ends.resolve(invocation, pending_call.to_outcome())
        return pending_call

    def _audit_statements(self, store: Store, invocation: Invocation, pending: Pending) -> list[Any]:
        """The rows of audit and journal for a call that becomes pending."""
        if not self._store.is_durable:
            return []
        name = invocation.listing.name
        detail: dict[str, str] = {"waiting_for": pending.waiting_for}
        if pending.waiting_for == "approval" and invocation.resumption.note:
            detail["asks_again_because"] = invocation.resumption.note
        return [
            store.audit.row_statement("wait", invocation.id, name, identity=invocation.identity, detail=detail),
            *self._journal.statements(invocation, "pending", pending.waiting_for),
        ]

    async def _find_inner_call(self, call_id: str, invocation: Invocation) -> str | None:
        """The id of the call that this one waits for; None if the user may not see it, or it waits for this one."""
        row = await self._pending_calls.find(call_id, invocation.principal) if call_id else None
        if row is None and call_id:
            return call_id if await self._runs_elsewhere(call_id, invocation) else None
        first = row.call.call_id if row else None
        while row is not None:
            if row.call.call_id == invocation.id:
                return None
            inner_call_id = row.open_round.inner_call_id if row.open_round else None
            row = await self._pending_calls.find(inner_call_id, Principal()) if inner_call_id else None
        return first

    async def _runs_elsewhere(self, call_id: str, invocation: Invocation) -> bool:
        """Whether a call that never waited is being run, for the same user and session, by another process or task."""
        call = await self._outcomes.find(call_id)
        if call is None or call.call_id == invocation.id:
            return False
        principal = invocation.principal
        is_visible = (call.user_id, call.session) == (principal.user, principal.session)
        return is_visible and call.state in ("running", "unknown")

    def _emit_pending(self, pending_call: PendingCall, identity: CallIdentity) -> None:
        if not self._listeners.callbacks:
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
        self._listeners.emit(event)
