"""Ledger: records which calls run and how they ended. An outcome is written once and never changes.

Used by the stages `recall`, `intent`, `ledger` and `park`; each method is one transaction on the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import StoredOutcomes, build_ledger_row
from surehand.runtime.durability.call_statements import CallStatements
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.invocation.claim import ClaimState
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
from surehand.store.serialization import serialize_outcome
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.ledger import LedgerRow

if TYPE_CHECKING:
    from surehand.store.store import Store

SizeCallback: TypeAlias = Callable[[int], None]
"""Receives the size of a retained call's outcome in bytes."""

log = logging.getLogger("surehand")
MAX_CALLS_IN_MEMORY = 10_000
"""Ended calls that a store in memory keeps."""


class Ledger:
    """Claims calls and records their outcomes."""

    def __init__(
        self,
        store: RuntimeStore,
        statements: CallStatements,
        *,
        write_retry: WriteRetry,
        outcomes: StoredOutcomes,
        repeated_calls: RepeatedCalls,
        messages: CallMessages,
        crash_report: CrashReport,
        on_ended: Callable[[Invocation], None],
        on_answer_recorded: Callable[[Invocation], None],
    ) -> None:
        self._store = store
        self._statements = statements
        self._write_retry = write_retry
        self._outcomes = outcomes
        self._repeated_calls = repeated_calls
        self._messages = messages
        self._crash_report = crash_report
        self._on_ended = on_ended
        self._on_answer_recorded = on_answer_recorded
        self._recorded_count = 0
        self.retained_calls: dict[str, SizeCallback] = {}
        """Calls that a store in memory must not drop until `forget_retained`."""
        self._open_call_counts: Counter[str] = Counter()
        """Calls with given ids that are in this runtime; the same id may be called several times at once."""
        self._claiming_invocations: WeakValueDictionary[str, Invocation] = WeakValueDictionary()
        """Invocations that claim a call with a known id: the store cannot tell two of the same process apart."""

    async def open_call(self, invocation: Invocation) -> LedgerRow:
        """Find the call with this id, or add this one; returns the stored row."""
        store = await self._store.open()
        if invocation.scope.has_session:
            self._repeated_calls.key_of(invocation)  # is stored with the call: a later one may repeat it
        call = build_ledger_row(invocation)
        invocation.note_row(call)
        if call.call_id in self._write_retry:
            await self._write_retry.retry_call(store, call.call_id)
        owner_id = self._store.owner_id if self._store.is_durable else None
        await store.write([ledger_table.open_statement(call._replace(owner=owner_id))])
        stored = await self._outcomes.find(call.call_id)
        if not self._store.is_durable:
            await self._prune_memory(store)
        if stored is None:
            raise StoreUnavailable(f"The record of call {call.call_id} was deleted at this moment. Try again.")
        return stored

    @contextmanager
    def keep_open(self, call_id: str) -> Iterator[None]:
        """Keep the row of a call with a given id while the call waits here, however long that takes."""
        self._open_call_counts[call_id] += 1
        try:
            yield
        finally:
            self._open_call_counts[call_id] -= 1
            if not self._open_call_counts[call_id]:
                del self._open_call_counts[call_id]

    async def mark_open_calls(self) -> None:
        """Record which calls with given ids are in this runtime, so that no process prunes their rows."""
        store = await self._store.open()
        await ledger_table.mark_idle_calls(store.database, self._store.owner_id, self._open_call_counts.keys())

    async def _prune_memory(self, store: Store) -> None:
        """Drop the oldest ended calls of a store in memory; a configured store has its own retention."""
        self._recorded_count += 1
        if self._recorded_count % (MAX_CALLS_IN_MEMORY // 10) == 0:
            from surehand.store.retention import Retention  # only a store in memory needs it here

            retention = Retention(None, None, None, None, None, None, None, max_calls=MAX_CALLS_IN_MEMORY, offers=None)
            await store.prune(retention, exempt_call_ids=self.retained_calls.keys() | self._open_call_counts.keys())

    async def forget_retained(self, call_id: str, size_callback: SizeCallback) -> LedgerRow | None:
        """Stop retaining a call, unless it was retained again since; returns the row if the call has not ended."""
        if self.retained_calls.get(call_id) is not size_callback:
            return None
        del self.retained_calls[call_id]
        store = await self._store.open()
        *_, remaining = await store.write(ledger_table.delete_ended_statements(call_id))
        return LedgerRow.from_row(remaining[0]) if remaining else None

    async def claim(self, invocation: Invocation, *, unless_repeated: bool = False) -> bool:
        """Claim a call before its handler runs; False if another invocation has. From here on it may have an effect.

        Args:
            unless_repeated: claim a new call only if it repeats none of its session that waits.
        """
        store = self._store.current or await self._store.open()
        if invocation.claim.is_busy:  # middleware called `proceed` twice at once, and the other pass was first
            return False
        is_new = invocation.is_new
        if is_new:
            key = self._repeated_calls.key_of(invocation) if invocation.scope.has_session else None
            statements = self._statements.start(store, invocation)
            if key is not None and unless_repeated:
                statements = [
                    *self._repeated_calls.guard_statements(invocation, key, locks=False),
                    *statements,
                ]
        else:
            other = self._claiming_invocations.get(invocation.id, invocation)
            if other is not invocation and other.claim.is_busy:
                return False
            self._claiming_invocations[invocation.id] = invocation
            claim = ledger_table.claim_statement(
                invocation.id, self._store.owner_id, invocation.claim.fence or 0, invocation.message.id
            )
            statements = [claim, *self._statements.intent_audit(invocation)]
        invocation.move_claim(ClaimState.CLAIMING)
        try:
            await store.write(statements)
            fence = 1 if is_new else await self._find_claimed_fence(store, invocation)
        except UnexpectedRowCount:
            invocation.move_claim(ClaimState.UNCLAIMED)
            if not is_new and await self._outcomes.find(invocation.id) is None:
                raise StoreUnavailable(f"The record of call {invocation.id} was deleted while it waited.") from None
            return False
        except StoreUnavailable as error:
            self._queue_claim_return(invocation, error)
            invocation.move_claim(ClaimState.UNCLAIMED)
            raise
        except asyncio.CancelledError:  # the claim is written or not, and the handler has not run
            await self._undo_claim(invocation)
            invocation.move_claim(ClaimState.UNCLAIMED)
            raise
        invocation.hold_claim(fence)
        return True

    async def _find_claimed_fence(self, store: Store, invocation: Invocation) -> int:
        """The fence of the claim that was just written."""
        fence = await ledger_table.find_fence(store.database, invocation.id, self._store.owner_id)
        if fence is None:  # another runtime took this one for dead in between
            raise StoreUnavailable(f"Call {invocation.id} was taken over by another runtime.")
        return fence

    def _queue_claim_return(self, invocation: Invocation, error: StoreUnavailable) -> None:
        """Undo a claim later that may have been committed: otherwise the call would stay `running` forever."""
        call_id = invocation.id
        owner_id = self._store.owner_id
        fence = invocation.claim.fence
        if fence is not None:
            give_back = [
                ledger_table.return_to_ready_statement(call_id, owner_id, fence),
                ledger_table.return_to_ready_statement(call_id, owner_id, fence + 1, "running"),
            ]
            self._write_retry.retry_later(call_id, give_back)
            return
        if not invocation.is_new:
            self._write_retry.retry_later(call_id, [ledger_table.release_unconfirmed_statement(call_id, owner_id)])
            return
        failed = Failed("unavailable", f"{invocation.tool_name} was not run: {error}")
        statements = self._statements.end(invocation, failed, serialize_outcome(failed), fence=1)
        self._write_retry.retry_later(call_id, statements)

    async def _undo_claim(self, invocation: Invocation) -> None:
        """Undo a claim that may have been committed. An approved call stays approved, and can be resumed."""
        call_id = invocation.id
        owner_id = self._store.owner_id
        fence = invocation.claim.fence
        if invocation.is_new:
            cancelled = serialize_outcome(Failed("cancelled", f"{invocation.tool_name} was cancelled before it ran."))
            end = ledger_table.end_statement(call_id, cancelled, owner=owner_id, fence=1)
            # Without the expected row count: there is no row if the claim was not committed.
            await self._write_retry.write_or_retry_later(call_id, Statement(end.sql, end.params))
        elif fence is None:
            release = ledger_table.release_unconfirmed_statement(call_id, owner_id)
            await self._write_retry.write_or_retry_later(call_id, release)
        else:
            revert = ledger_table.revert_to_taken_statement(call_id, owner_id, fence + 1)
            later = ledger_table.return_to_ready_statement(call_id, owner_id, fence + 1, "running")
            taken = await self._write_retry.write_or_retry_later(call_id, revert, later_statement=later)
            if taken:
                invocation.move_claim(ClaimState.UNCLAIMED, fence=taken[0]["fence"])

    def return_to_ready_later(self, invocation: Invocation) -> None:
        """Return the claim of an approved call that could not run, so that a runtime resumes it later."""
        assert invocation.claim.fence is not None
        give_back = ledger_table.return_to_ready_statement(invocation.id, self._store.owner_id, invocation.claim.fence)
        self._write_retry.retry_later(invocation.id, [give_back])

    async def release(self, invocation: Invocation) -> None:
        """Release the claim of a call that had no effect, so that it can be tried again under the same id."""
        fence = invocation.claim.fence
        if fence is None:
            return
        invocation.begin_release()
        release = ledger_table.release_statement(invocation.id, self._store.owner_id, fence)
        await self._write_retry.write_or_retry_later(invocation.id, release)
        invocation.finish_release()

    async def record_outcome(
        self, invocation: Invocation, outcome: Done | Failed, *, is_interrupted: bool = False
    ) -> Outcome:
        """Write the outcome; returns the stored one if another invocation was first.

        Args:
            is_interrupted: the call was cancelled or timed out, so its caller must not wait long for the write.
        """
        store = self._store.current or await self._store.open()
        try:
            text = serialize_outcome(outcome)
        except Exception as error:  # noqa: BLE001 - a handler may put anything into an outcome
            message = f"{invocation.tool_name} ran, but {error}"
            log.error("%s", self._crash_report.redact(message))
            outcome = Failed("crashed", message, executed=True, data={"exception": type(error).__name__})
            text = serialize_outcome(outcome)
        statements = self._statements.end(invocation, outcome, text, fence=invocation.claim.fence)
        invocation.move_claim(ClaimState.RECORDING)
        try:
            if invocation.may_have_executed and invocation.claim.answer is None:
                # The effect may have happened, so its outcome must be stored.
                await self._write_retry.write_with_retries(
                    store, invocation.id, statements, is_interrupted=is_interrupted
                )
            else:
                await store.write(statements)
        except UnexpectedRowCount:
            return await self._resolve_write_conflict(store, invocation, outcome, text)
        except asyncio.CancelledError:
            self._on_ended(invocation)
            raise
        finally:
            if not invocation.claim.is_lost:
                invocation.move_claim(ClaimState.RECORDED)
        self._on_outcome_recorded(invocation, outcome)
        if not self._store.is_durable:
            on_size = self.retained_calls.get(invocation.id)
            if on_size is not None:
                on_size(len(text))
            await self._prune_memory(store)
        return outcome

    def _on_outcome_recorded(self, invocation: Invocation, outcome: Outcome) -> None:
        """Update the state in this process after the outcome was committed."""
        self._on_ended(invocation)
        if invocation.message.id is not None:
            self._messages.mark_written(invocation, outcome)
        if invocation.claim.answer is not None:
            self._on_answer_recorded(invocation)

    async def _resolve_write_conflict(
        self, store: Store, invocation: Invocation, outcome: Done | Failed, text: str
    ) -> Outcome:
        """The outcome after a failed write: another invocation was first, or an earlier attempt was committed."""
        call = await self._outcomes.find(invocation.id)
        # An answer is never written twice: with one, an equal stored outcome came from another answer.
        if call is not None and call.outcome == text and invocation.claim.answer is None:
            self._on_outcome_recorded(invocation, outcome)
            return outcome
        invocation.move_claim(ClaimState.LOST_RACE)
        if call is not None and call.outcome is None and call.state != "unknown":
            return Pending("result", invocation.id, f"{invocation.tool_name} was answered elsewhere and goes on.")
        return outcome if call is None else self._outcomes.outcome_of(call)
