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

from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.durability.call_record import (
    RecordTemplate,
    build_ledger_row,
    serialize_call_arguments,
    sha256_hex,
    stored_outcome,
)
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.invocation.invocation import Invocation
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
from surehand.store.serialization import deserialize_arguments, serialize_outcome
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.inbox import tool_result_event
from surehand.store.tables.ledger import LedgerRow

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

SizeCallback: TypeAlias = Callable[[int], None]
"""Receives the size of a retained call's outcome in bytes."""

log = logging.getLogger("surehand")
MAX_CALLS_IN_MEMORY = 10_000
"""Ended calls that a store in memory keeps."""
LARGE_ARGUMENTS_BYTES = 64 << 10
"""A store in memory drops larger arguments when the call has ended."""


class Ledger:
    """Claims calls, records their outcomes and finds them again."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self._recorded_count = 0
        self.write_retry = WriteRetry(services)
        self.retained_calls: dict[str, SizeCallback] = {}
        """Calls that a store in memory must not drop until `forget_retained`."""
        self._open_call_counts: Counter[str] = Counter()
        """Calls with given ids that are in this runtime; the same id may be called several times at once."""
        self._claiming_invocations: WeakValueDictionary[str, Invocation] = WeakValueDictionary()
        """Invocations that claim a call with a known id: the store cannot tell two of the same process apart."""

    async def open_call(self, invocation: Invocation) -> LedgerRow:
        """Find the call with this id, or add this one; returns the stored row."""
        store = await self._services.open_store()
        call = build_ledger_row(invocation)
        invocation.ledger_row = call
        if call.call_id in self.write_retry:
            await self.write_retry.retry_call(store, call.call_id)
        owner_id = self._services.owner_id if self._services.is_durable else None
        await store.write([ledger_table.open_statement(call._replace(owner=owner_id))])
        stored = await self.find(call.call_id)
        if not self._services.is_durable:
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
        store = await self._services.open_store()
        await ledger_table.mark_idle_calls(store.database, self._services.owner_id, self._open_call_counts.keys())

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
        store = await self._services.open_store()
        *_, remaining = await store.write(ledger_table.delete_ended_statements(call_id))
        return LedgerRow.from_row(remaining[0]) if remaining else None

    async def claim(self, invocation: Invocation, *, unless_repeated: bool = False) -> bool:
        """Claim a call before its handler runs; False if another invocation has. From here on it may have an effect.

        Args:
            unless_repeated: claim a new call only if it repeats none of its session that waits.
        """
        store = self._services.store or await self._services.open_store()
        is_new = _is_new_call(invocation)
        if is_new:
            key = self._services.repeated_calls.key_of(invocation) if invocation.scope.has_session else None
            statements = self._start_statements(store, invocation)
            if key is not None and unless_repeated:
                statements = [
                    *self._services.repeated_calls.guard_statements(invocation, key, locks=False),
                    *statements,
                ]
        else:
            other = self._claiming_invocations.get(invocation.id, invocation)
            if other is not invocation and other.is_claiming:
                return False
            self._claiming_invocations[invocation.id] = invocation
            invocation.is_claiming = True
            claim = ledger_table.claim_statement(
                invocation.id, self._services.owner_id, invocation.fence or 0, invocation.message_id
            )
            statements = [claim, *self._intent_audit_statements(invocation)]
        try:
            await store.write(statements)
            fence = 1 if is_new else await self._find_claimed_fence(store, invocation)
        except UnexpectedRowCount:
            invocation.is_claiming = False
            if not is_new and await self.find(invocation.id) is None:
                raise StoreUnavailable(f"The record of call {invocation.id} was deleted while it waited.") from None
            return False
        except StoreUnavailable as error:
            self._queue_claim_return(invocation, error)
            invocation.is_claiming = False
            raise
        except asyncio.CancelledError:  # the claim is written or not, and the handler has not run
            await self._undo_claim(invocation)
            invocation.is_claiming = False
            raise
        invocation.fence = fence
        return True

    async def _find_claimed_fence(self, store: Store, invocation: Invocation) -> int:
        """The fence of the claim that was just written."""
        fence = await ledger_table.find_fence(store.database, invocation.id, self._services.owner_id)
        if fence is None:  # another runtime took this one for dead in between
            raise StoreUnavailable(f"Call {invocation.id} was taken over by another runtime.")
        return fence

    def _start_statements(self, store: Store, invocation: Invocation) -> list[Statement]:
        """Statements for a new call; a plain call uses the template of its tool and scope."""
        template = self._record_template(store, invocation)
        invocation.record_template = template
        if template is not None:
            arguments = serialize_call_arguments(invocation)
            return template.start_statements(invocation.id, arguments, invocation.repeat_key)
        invocation.ledger_row = build_ledger_row(invocation, owner_id=self._services.owner_id, fence=1)
        return [ledger_table.start_statement(invocation.ledger_row), *self._intent_audit_statements(invocation)]

    def _record_template(self, store: Store, invocation: Invocation) -> RecordTemplate | None:
        """The template for a plain call of this tool and scope; None if the call has a context of its own."""
        templates = invocation.scope.record_templates
        listing = invocation.listing
        template = templates.get(listing)
        if template is not None and invocation.parent is None and invocation.model_id is None:
            return template if invocation.message_id is None else None
        call = build_ledger_row(invocation, owner_id=self._services.owner_id, fence=1)
        if call.context != "{}" or call.posted is not None or not self._services.is_durable:
            return None
        return templates.setdefault(listing, RecordTemplate(store, call, self._services.owner_id, invocation.identity))

    def _queue_claim_return(self, invocation: Invocation, error: StoreUnavailable) -> None:
        """Undo a claim later that may have been committed: otherwise the call would stay `running` forever."""
        call_id = invocation.id
        owner_id = self._services.owner_id
        fence = invocation.fence
        if fence is not None:
            give_back = [
                ledger_table.return_to_ready_statement(call_id, owner_id, fence),
                ledger_table.return_to_ready_statement(call_id, owner_id, fence + 1, "running"),
            ]
            self.write_retry.retry_later(call_id, give_back)
            return
        if not _is_new_call(invocation):
            self.write_retry.retry_later(call_id, [ledger_table.release_unconfirmed_statement(call_id, owner_id)])
            return
        failed = Failed("unavailable", f"{invocation.tool_name} was not run: {error}")
        invocation.fence = 1
        self.write_retry.retry_later(call_id, self._outcome_statements(invocation, failed, serialize_outcome(failed)))
        invocation.fence = None
        invocation.is_journalled = False

    async def _undo_claim(self, invocation: Invocation) -> None:
        """Undo a claim that may have been committed. An approved call stays approved, and can be resumed."""
        call_id = invocation.id
        owner_id = self._services.owner_id
        fence = invocation.fence
        if _is_new_call(invocation):
            cancelled = serialize_outcome(Failed("cancelled", f"{invocation.tool_name} was cancelled before it ran."))
            end = ledger_table.end_statement(call_id, cancelled, owner=owner_id, fence=1)
            # Without the expected row count: there is no row if the claim was not committed.
            await self.write_retry.write_or_retry_later(call_id, Statement(end.sql, end.params))
        elif fence is None:
            release = ledger_table.release_unconfirmed_statement(call_id, owner_id)
            await self.write_retry.write_or_retry_later(call_id, release)
        else:
            revert = ledger_table.revert_to_taken_statement(call_id, owner_id, fence + 1)
            later = ledger_table.return_to_ready_statement(call_id, owner_id, fence + 1, "running")
            taken = await self.write_retry.write_or_retry_later(call_id, revert, later_statement=later)
            if taken:
                invocation.fence = taken[0]["fence"]

    async def release(self, invocation: Invocation) -> None:
        """Release the claim of a call that had no effect, so that it can be tried again under the same id."""
        fence = invocation.fence
        if fence is None:
            return
        invocation.fence = None
        invocation.is_claimed = False
        release = ledger_table.release_statement(invocation.id, self._services.owner_id, fence)
        await self.write_retry.write_or_retry_later(invocation.id, release)
        invocation.is_claiming = False

    async def record_outcome(
        self, invocation: Invocation, outcome: Done | Failed, *, is_interrupted: bool = False
    ) -> Outcome:
        """Write the outcome; returns the stored one if another invocation was first.

        Args:
            is_interrupted: the call was cancelled or timed out, so its caller must not wait long for the write.
        """
        store = self._services.store or await self._services.open_store()
        try:
            text = serialize_outcome(outcome)
        except Exception as error:  # noqa: BLE001 - a handler may put anything into an outcome
            message = f"{invocation.tool_name} ran, but {error}"
            redact = self._services.redact
            log.error("%s", redact(message) if redact else message)
            outcome = Failed("crashed", message, executed=True, data={"exception": type(error).__name__})
            text = serialize_outcome(outcome)
        invocation.is_outcome_recorded = True
        statements = self._outcome_statements(invocation, outcome, text)
        try:
            if invocation.may_have_run and invocation.round_answer is None:
                # The effect may have happened, so its outcome must be stored.
                await self.write_retry.write_with_retries(
                    store, invocation.id, statements, is_interrupted=is_interrupted
                )
            else:
                await store.write(statements)
        except UnexpectedRowCount:
            return await self._resolve_write_conflict(store, invocation, outcome, text)
        except asyncio.CancelledError:
            self._services.pending_calls.on_call_ended(invocation)
            raise
        finally:
            invocation.is_claiming = False
        self._on_outcome_recorded(invocation, outcome)
        if not self._services.is_durable:
            on_size = self.retained_calls.get(invocation.id)
            if on_size is not None:
                on_size(len(text))
            await self._prune_memory(store)
        return outcome

    def _on_outcome_recorded(self, invocation: Invocation, outcome: Outcome) -> None:
        """Update the state in this process after the outcome was committed."""
        self._services.pending_calls.on_call_ended(invocation)
        self._services.visible_calls.mark_written(invocation, outcome)
        if invocation.on_settled is not None:
            invocation.on_settled(invocation)

    def _outcome_statements(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        """All statements of one transaction that ends a call."""
        call_id = invocation.id
        if invocation.record_template is not None and invocation.fence == 1 and not invocation.round:
            invocation.is_journalled = True
            code = outcome.code if isinstance(outcome, Failed) else "ok"
            return invocation.record_template.end_statements(call_id, text, code, invocation.elapsed_seconds() * 1000)
        if invocation.round_answer is not None:
            statements = [invocation.round_answer.statement(), ledger_table.end_open_statement(call_id, text)]
        elif invocation.fence is not None:
            owner_id = self._services.owner_id
            statements = [ledger_table.end_statement(call_id, text, owner=owner_id, fence=invocation.fence)]
        else:
            statements = [ledger_table.end_unclaimed_statement(call_id, text)]
        row = invocation.ledger_row
        if not self._services.is_durable and row is not None and len(row.arguments) > LARGE_ARGUMENTS_BYTES:
            statements.append(ledger_table.clear_arguments_statement(call_id))
        return [
            *statements,
            *self._inbox_statements(invocation, outcome),
            *self._outcome_audit_statements(invocation, outcome, text),
            *self._services.visible_calls.amend_statements(invocation, outcome),
        ]

    def _inbox_statements(self, invocation: Invocation, outcome: Done | Failed) -> list[Statement]:
        """The inbox item for an agent that got Pending; a caller that still waits gets the outcome directly."""
        if not invocation.is_resumed or not self._services.is_durable:
            return []
        principal = invocation.principal
        store = self._services.store
        result = outcome.data if isinstance(outcome, Done) else {"error": outcome.message, "code": outcome.code}
        assert store is not None
        item = tool_result_event(invocation.id, invocation.tool_name, principal.turn, result, invocation.identity)
        return [store.inbox.push_statement(principal.agent or "", *item, user=principal.user)]

    def _intent_audit_statements(self, invocation: Invocation) -> list[Statement]:
        """The audit row for a claim, in the same transaction: no effect without it."""
        store = self._services.store
        if not self._services.is_durable or store is None:
            return []
        row = invocation.ledger_row
        detail = {"arguments": sha256_hex(row.arguments) if row else None}
        name = invocation.listing.name
        return [store.audit.row_statement("intent", invocation.id, name, identity=invocation.identity, detail=detail)]

    def _outcome_audit_statements(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        """The rows of audit and journal, in the same transaction as the outcome."""
        store = self._services.store
        if not self._services.is_durable or store is None:
            return []
        invocation.is_journalled = True
        call_id = invocation.id
        name = invocation.listing.name
        whose = invocation.identity
        code = outcome.code if isinstance(outcome, Failed) else "ok"
        detail = {"code": code, "outcome": sha256_hex(text)}
        outcome_row = store.audit.row_statement("outcome", call_id, name, identity=whose, detail=detail)
        ended = self._services.journal_statements(invocation, "ended", code)
        answer = invocation.round_answer
        if answer is None:
            return [outcome_row, *ended]
        detail = {"answer": answer.answer, "answer_digest": answer.answer_digest}
        answer_row = store.audit.row_statement(
            "answer", call_id, name, identity=whose, by=answer.answered_by, detail=detail
        )
        settled = self._services.journal_statements(invocation, "settled", answer.answer)
        return [answer_row, outcome_row, *settled, *ended]

    async def _resolve_write_conflict(
        self, store: Store, invocation: Invocation, outcome: Done | Failed, text: str
    ) -> Outcome:
        """The outcome after a failed write: another invocation was first, or an earlier attempt was committed."""
        call = await self.find(invocation.id)
        # An answer is never written twice: with one, an equal stored outcome came from another answer.
        if call is not None and call.outcome == text and invocation.round_answer is None:
            self._on_outcome_recorded(invocation, outcome)
            return outcome
        invocation.has_lost_race = True
        if call is not None and call.outcome is None and call.state != "unknown":
            return Pending("result", invocation.id, f"{invocation.tool_name} was answered elsewhere and goes on.")
        return outcome if call is None else self.stored_outcome(call)

    async def find(self, call_id: str) -> LedgerRow | None:
        """Find the row of a call."""
        store = await self._services.open_store()
        query = ledger_table.find_statement(call_id)
        rows = await store.database.read(query.sql, query.params)
        return LedgerRow.from_row(rows[0]) if rows else None

    def stored_outcome(self, call: LedgerRow) -> Outcome:
        """The stored outcome of a call; makes sure that its artifact can be read here."""
        outcome = stored_outcome(call)
        if isinstance(outcome, Done) and outcome.clipped_text is not None:
            self._services.outputs.add_reader_tool()  # another process may have stored the artifact
        return outcome

    def is_same_call(self, call: LedgerRow, invocation: Invocation) -> bool:
        """Whether a stored call is the one that is made now; an id that the runtime generated has no fingerprint."""
        if call.fingerprint:
            return invocation.ledger_row is not None and call.fingerprint == invocation.ledger_row.fingerprint
        principal = invocation.principal
        listing = invocation.listing
        if (call.tool, call.user_id, call.session) != (listing.name, principal.user, principal.session):
            return False
        try:
            stored_arguments = listing.tool.validate_arguments(deserialize_arguments(call.arguments))
        except InvalidArguments:
            return False
        return json_digest(stored_arguments) == json_digest(invocation.arguments)


def _is_new_call(invocation: Invocation) -> bool:
    """Whether the ledger cannot have a row of the call yet."""
    return not (invocation.has_given_id or invocation.is_resumed or invocation.round)
