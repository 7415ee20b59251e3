"""Parking: lets a call wait, or ends it if it cannot wait or need not. The stage `park` is its only user."""

from __future__ import annotations

from math import isfinite
from typing import Any

from surehand.core.call import Principal
from surehand.core.errors import FailureCode
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pending.following_calls import FollowingCalls
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_call_writer import PendingCallWriter, TooManyPendingCalls
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.wait_refusal import WaitRefusal
from surehand.store.errors import UnstorableValue

_TOO_MANY_PENDING_MESSAGE = (
    "too many calls wait for a person already. Have some of them answered first, or cancel some."
)


class Parking:
    """Stores calls that have to wait, and ends those that follow a call or run which has ended meanwhile."""

    def __init__(
        self,
        writer: PendingCallWriter,
        pending_calls: PendingCalls,
        local: LocalPendingCalls,
        following_calls: FollowingCalls,
        *,
        ledger: Ledger,
        journal: StoreJournal,
        wait_refusal: WaitRefusal,
    ) -> None:
        self._writer = writer
        self._pending_calls = pending_calls
        self._local = local
        self._following_calls = following_calls
        self._ledger = ledger
        self._journal = journal
        self._wait_refusal = wait_refusal

    async def store_or_end(self, invocation: Invocation, pending: Pending) -> PendingCall | Outcome:
        """Store a call with its question; returns the waiting call, or the outcome of one that does not wait."""
        pending = sanitize_pending(pending)
        if self._wait_refusal.describe is not None:
            problem = f"{invocation.tool_name} {self._wait_refusal.describe(pending)}"
            return await self._end(invocation, _failure("unavailable", problem, invocation))
        ended = await self._find_ended(invocation, pending)
        if ended is not None:
            return await self._end(invocation, ended)
        await self._journal.write_progress(invocation)
        try:
            parked = await self._writer.write(invocation, pending)
        except UnstorableValue as error:
            problem = f"{invocation.tool_name} cannot wait for an answer: {error}"
            return await self._end(invocation, _failure("invalid_arguments", problem, invocation))
        except TooManyPendingCalls:
            problem = f"{invocation.tool_name} cannot wait: {_TOO_MANY_PENDING_MESSAGE}"
            return await self._end(invocation, _failure("limit_exceeded", problem, invocation))
        if isinstance(parked, PendingCall):
            return await self._end_if_followed_has_ended(invocation, pending, parked)
        if not isinstance(parked, Pending):  # another invocation was first
            invocation.move_claim(ClaimState.FOUND_RECORDED)
        return parked

    async def wait_for_answer(self, invocation: Invocation, parked: PendingCall, seconds: float) -> Outcome | None:
        """Let the caller itself wait; returns the outcome, or None if the call goes on here with an answer."""
        is_answered = await self._local.wait_for_answer(invocation, seconds)
        if is_answered and not invocation.claim.is_lost:
            return None
        if is_answered:  # and ended by another process
            return await self._stored_outcome(invocation, parked)
        return self.to_caller_outcome(invocation, parked)

    def to_caller_outcome(self, invocation: Invocation, parked: PendingCall) -> Pending:
        """The outcome of a call that waits while its caller goes on."""
        self._local.drop_arguments(invocation)
        return parked.to_outcome()

    async def record_cancellation(self, invocation: Invocation) -> None:
        """End a call whose caller was cancelled while it went on: its answer cannot be used again."""
        if invocation.may_have_executed and invocation.resumption.answer is None and not invocation.claim.is_recorded:
            cancelled = Failed("cancelled", f"{invocation.tool_name} was cancelled while it ran.", executed=True)
            await self._ledger.record_outcome(invocation, cancelled, is_interrupted=True)

    async def _find_ended(self, invocation: Invocation, pending: Pending) -> Outcome | None:
        """The outcome of the nested call or run that a call would wait for, if that has ended meanwhile."""
        ended = await self._pending_calls.ended_outcome(pending.call_id, invocation.principal)
        if ended is None and pending.run_id is not None:
            ended = await self._pending_calls.outcome_of_followed_run(pending.run_id, invocation.principal)
        return ended

    async def _end_if_followed_has_ended(
        self, invocation: Invocation, pending: Pending, parked: PendingCall
    ) -> PendingCall | Outcome:
        """Look once more, since the call or run that it waits for may have ended while it was stored."""
        followed = parked.request["follows"] if parked.is_following else pending.call_id
        if followed and await self._pending_calls.ended_outcome(followed, invocation.principal):
            await self._following_calls.end_following_calls(followed)
        if pending.run_id is not None:
            await self._following_calls.end_calls_that_follow_run(pending.run_id)
        if invocation.id in self._local.invocations:
            return parked
        invocation.move_claim(ClaimState.FOUND_RECORDED)
        return await self._stored_outcome(invocation, parked)

    async def _stored_outcome(self, invocation: Invocation, parked: PendingCall) -> Outcome:
        stored = await self._pending_calls.current_outcome(invocation.id, Principal())
        return stored or parked.to_outcome()

    async def _end(self, invocation: Invocation, outcome: Outcome) -> Outcome:
        """Record the outcome of a call that cannot become pending; `ledger` let it pass as Pending."""
        has_row = invocation.claim.fence is not None or invocation.has_given_id
        if not has_row or isinstance(outcome, Pending):
            return outcome
        return await self._ledger.record_outcome(invocation, outcome)


def _failure(code: FailureCode, problem: str, invocation: Invocation) -> Failed:
    return Failed(code, problem, executed=invocation.may_have_executed)


def sanitize_pending(pending: Pending) -> Pending:
    """Replace invalid values in a Pending: a handler may put anything into it."""
    fields = pending.__dict__
    corrections: dict[str, Any] = {}
    if fields["waiting_for"] not in ("approval", "result", "input"):
        corrections["waiting_for"] = "result"
    for name in ("call_id", "message"):
        if not isinstance(fields[name], str):
            corrections[name] = ""
    expires_at = fields["expires_at"]
    if expires_at is not None and not (isinstance(expires_at, (int, float)) and isfinite(expires_at)):
        corrections["expires_at"] = None
    time_to_live = fields.get("time_to_live")
    if time_to_live is not None and not (isinstance(time_to_live, (int, float)) and time_to_live > 0):
        pending = pending.evolve()
        pending.__dict__["time_to_live"] = None
    return pending.evolve(**corrections) if corrections else pending
