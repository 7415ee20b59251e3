"""Ledger: how the calls of a runtime are remembered. An outcome is written once and never changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
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
from surehand.runtime.pipeline.invocation import Invocation
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
from surehand.store.serialization import deserialize_arguments, serialize_outcome
from surehand.store.tables import ledger as rows
from surehand.store.tables.inbox import tool_result_event
from surehand.store.tables.ledger import LedgerRow

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

SizeCallback: TypeAlias = Callable[[int], None]
"""Is told how many bytes came of a call that was promised."""

log = logging.getLogger("surehand")
MAX_CALLS_IN_MEMORY = 10_000
"""Calls that a runtime without a store remembers once they are over."""
LARGE_ARGUMENTS_BYTES = 64 << 10
"""Bytes of arguments that it does not remember then."""


class Ledger:
    """What the stages ask of the store, each in one transaction."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services, self._recorded_count = services, 0
        self.write_retry = WriteRetry(services)
        self.retained_calls: dict[str, SizeCallback] = {}
        """Calls that stay in memory until they are forgotten, however many follow."""
        self._claiming_invocations: WeakValueDictionary[str, Invocation] = WeakValueDictionary()
        """Who claims a call whose id is known, while it lives: of two here, the store cannot tell which one did."""

    async def open_call(self, invocation: Invocation) -> LedgerRow:
        """What the id of a call stands for: this call, if nobody has used it before."""
        store = await self._services.open_store()
        call = invocation.ledger_row = build_ledger_row(invocation)
        if call.call_id in self.write_retry:
            await self.write_retry.retry_call(store, call.call_id)
        found = await store.write(rows.open_statements(call))
        if not self._services.is_durable:
            await self._prune_memory(store)
        return LedgerRow.from_row(found[1][0])

    async def _prune_memory(self, store: Store) -> None:
        """Memory is for the latest; a store that was asked for keeps its own time."""
        self._recorded_count += 1
        if self._recorded_count % (MAX_CALLS_IN_MEMORY // 10) == 0:
            from surehand.store.retention import Retention

            only = Retention(None, None, None, None, None, None, None, max_calls=MAX_CALLS_IN_MEMORY)
            await store.prune(only, exempt_call_ids=self.retained_calls.keys())

    async def forget_retained(self, call_id: str, size_callback: SizeCallback) -> LedgerRow | None:
        """Let go of a call that was promised, unless it was again since; the row of one that is not over."""
        if self.retained_calls.get(call_id) is not size_callback:
            return None
        del self.retained_calls[call_id]
        *_, left = await (await self._services.open_store()).write(rows.delete_ended_statements(call_id))
        return LedgerRow.from_row(left[0]) if left else None

    async def claim(self, invocation: Invocation) -> bool:
        """Write the intent; false if somebody else has. From here on the effect may have happened."""
        store, me = self._services.store or await self._services.open_store(), self._services.owner_id
        if not _is_new_call(invocation):
            if (
                other := self._claiming_invocations.get(invocation.id, invocation)
            ) is not invocation and other.is_claiming:
                return False
            self._claiming_invocations[invocation.id], invocation.is_claiming = invocation, True
            step, fence = rows.claim_statement(invocation.id, me, invocation.fence or 0, invocation.message_id), None
            steps = [_expect_one_row(step), *self._intent_audit_statements(invocation)]
        else:
            steps, fence = self._start_statements(store, invocation), 1
        try:
            results = await store.write(steps)
        except UnexpectedRowCount:
            invocation.is_claiming = False
            return False
        except StoreUnavailable as error:
            self._queue_claim_return(invocation, error)
            invocation.is_claiming = False
            raise
        except asyncio.CancelledError:  # by now it is written or not, and nothing has run
            await self._undo_claim(invocation)
            invocation.is_claiming = False
            raise
        invocation.fence = fence or results[0][0]["fence"]
        return True

    def _start_statements(self, store: Store, invocation: Invocation) -> list[Statement]:
        """A call that is new. One that belongs to nothing else is like all others of its tool in its scope."""
        form = invocation.record_template = self._record_template(store, invocation)
        if form is not None:
            return form.start_statements(invocation.id, serialize_call_arguments(invocation))
        invocation.ledger_row = build_ledger_row(invocation, owner_id=self._services.owner_id, fence=1)
        return [rows.start_statement(invocation.ledger_row), *self._intent_audit_statements(invocation)]

    def _record_template(self, store: Store, invocation: Invocation) -> RecordTemplate | None:
        forms, listing = invocation.scope.record_templates, invocation.listing
        if (form := forms.get(listing)) is not None and invocation.parent is None and invocation.model_id is None:
            return form if invocation.message_id is None else None
        call = build_ledger_row(invocation, owner_id=self._services.owner_id, fence=1)
        if call.context != "{}" or call.posted is not None or not self._services.is_durable:
            return None
        return forms.setdefault(listing, RecordTemplate(store, call, self._services.owner_id))

    def _queue_claim_return(self, invocation: Invocation, error: StoreUnavailable) -> None:
        """A claim in doubt may have been kept, and nothing has run: else the call would seem to run for good."""
        call_id, me, fence = invocation.id, self._services.owner_id, invocation.fence
        if fence is not None:
            back = [
                rows.return_to_ready_statement(call_id, me, fence),
                rows.return_to_ready_statement(call_id, me, fence + 1, "running"),
            ]
            self.write_retry.retry_later(call_id, back)
            return
        if not _is_new_call(invocation):
            self.write_retry.retry_later(call_id, [rows.release_unconfirmed_statement(call_id, me)])
            return
        refused = Failed("unavailable", f"{invocation.tool_name} was not run: {error}")
        invocation.fence = 1
        self.write_retry.retry_later(call_id, self._outcome_statements(invocation, refused, serialize_outcome(refused)))
        invocation.fence, invocation.is_journalled = None, False

    async def _undo_claim(self, invocation: Invocation) -> None:
        """Take a claim back that may have been written. A call that was let run is still to go on."""
        call_id, me, fence = invocation.id, self._services.owner_id, invocation.fence
        if _is_new_call(invocation):
            cancelled = serialize_outcome(Failed("cancelled", f"{invocation.tool_name} was cancelled before it ran."))
            step = rows.end_statement(call_id, cancelled, owner=me, fence=1)
            await self.write_retry.write_or_retry_later(call_id, Statement(step.sql, step.params))
        elif fence is None:
            await self.write_retry.write_or_retry_later(call_id, rows.release_unconfirmed_statement(call_id, me))
        else:
            later = rows.return_to_ready_statement(call_id, me, fence + 1, "running")
            if taken := await self.write_retry.write_or_retry_later(
                call_id, rows.revert_to_taken_statement(call_id, me, fence + 1), later_statement=later
            ):
                invocation.fence = taken[0]["fence"]

    async def release(self, invocation: Invocation) -> None:
        """Nothing has happened: the call may be tried again under the same id."""
        if (fence := invocation.fence) is not None:
            invocation.fence, invocation.is_claimed = None, False
            await self.write_retry.write_or_retry_later(
                invocation.id, rows.release_statement(invocation.id, self._services.owner_id, fence)
            )
            invocation.is_claiming = False

    async def record_outcome(self, invocation: Invocation, outcome: Done | Failed) -> Outcome:
        """Write the outcome, or give the one that was written before."""
        store = self._services.store or await self._services.open_store()
        try:
            text = serialize_outcome(outcome)
        except Exception as error:  # noqa: BLE001 - a handler may put anything into an outcome
            told, kind, redact = f"{invocation.tool_name} ran, but {error}", type(error).__name__, self._services.redact
            log.error("%s", redact(told) if redact else told)
            outcome = Failed("crashed", told, executed=True, data={"exception": kind})
            text = serialize_outcome(outcome)
        invocation.is_outcome_recorded = True
        steps = self._outcome_statements(invocation, outcome, text)
        try:  # what has happened must be written; what has not can simply be refused
            if invocation.may_have_run and invocation.round_answer is None:
                await self.write_retry.write_with_retries(store, invocation.id, steps)
            else:
                await store.write(steps)
        except UnexpectedRowCount:
            return await self._resolve_write_conflict(store, invocation, outcome, text)
        except asyncio.CancelledError:
            self._services.pending_calls.on_call_ended(invocation)
            raise
        finally:
            invocation.is_claiming = False
        self._on_outcome_recorded(invocation, outcome)
        if not self._services.is_durable:
            if (weigh := self.retained_calls.get(invocation.id)) is not None:
                weigh(len(text))
            await self._prune_memory(store)
        return outcome

    def _on_outcome_recorded(self, invocation: Invocation, outcome: Outcome) -> None:
        self._services.pending_calls.on_call_ended(invocation)
        self._services.visible_calls.mark_written(invocation, outcome)
        if invocation.on_settled is not None:
            invocation.on_settled(invocation)

    def _outcome_statements(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        call_id = invocation.id
        if invocation.record_template is not None and invocation.fence == 1 and not invocation.round:
            invocation.is_journalled = True
            code = outcome.code if isinstance(outcome, Failed) else "ok"
            return invocation.record_template.end_statements(call_id, text, code, invocation.elapsed_seconds() * 1000)
        if (answered := invocation.round_answer) is not None:
            steps = [answered.statement(), rows.end_answered_statement(call_id, text)]
        elif invocation.fence is not None:
            steps = [rows.end_statement(call_id, text, owner=self._services.owner_id, fence=invocation.fence)]
        else:
            steps = [rows.end_unclaimed_statement(call_id, text)]
        if (
            not self._services.is_durable
            and invocation.ledger_row is not None
            and len(invocation.ledger_row.arguments) > LARGE_ARGUMENTS_BYTES
        ):
            steps.append(rows.clear_arguments_statement(call_id))
        told = [
            *self._inbox_statements(invocation, outcome),
            *self._outcome_audit_statements(invocation, outcome, text),
        ]
        return [*steps, *told, *self._services.visible_calls.amend_statements(invocation, outcome)]

    def _inbox_statements(self, invocation: Invocation, outcome: Done | Failed) -> list[Statement]:
        """Whoever was told to wait finds the result in the inbox; a caller who waits here is told directly."""
        if not invocation.is_resumed or not self._services.is_durable:
            return []
        who, store = invocation.principal, self._services.store
        result = outcome.data if isinstance(outcome, Done) else {"error": outcome.message, "code": outcome.code}
        assert store is not None
        item = tool_result_event(invocation.id, invocation.tool_name, who.turn, result)
        return [store.inbox.push_statement(who.agent or "", *item)]

    def _intent_audit_statements(self, invocation: Invocation) -> list[Statement]:
        """No effect without its row in the audit, in the same transaction."""
        if not self._services.is_durable or (store := self._services.store) is None:
            return []
        known = invocation.ledger_row
        user, detail = invocation.principal.user, {"arguments": sha256_hex(known.arguments) if known else None}
        return [store.audit.row_statement("intent", invocation.id, invocation.listing.name, user=user, detail=detail)]

    def _outcome_audit_statements(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        """The rows of audit and journal, in the same transaction as what they tell of."""
        if not self._services.is_durable or (store := self._services.store) is None:
            return []
        invocation.is_journalled = True
        name, user, call_id = invocation.listing.name, invocation.principal.user, invocation.id
        code = outcome.code if isinstance(outcome, Failed) else "ok"
        detail = {"code": code, "outcome": sha256_hex(text)}
        told = [store.audit.row_statement("outcome", call_id, name, user=user, detail=detail)]
        if (answered := invocation.round_answer) is not None:
            detail = {"answer": answered.answer, "weight": answered.answer_digest}
            told.insert(
                0, store.audit.row_statement("answer", call_id, name, user=user, by=answered.answered_by, detail=detail)
            )
            told += self._services.journal_statements(invocation, "settled", answered.answer)
        return [*told, *self._services.journal_statements(invocation, "ended", code)]

    async def _resolve_write_conflict(
        self, store: Store, invocation: Invocation, outcome: Done | Failed, text: str
    ) -> Outcome:
        """Somebody else was first, or a write in doubt was kept after all."""
        found = await self.find(invocation.id)
        # An answer is never written twice: where the same outcome is there already, it was somebody else's.
        if found is not None and found.outcome == text and invocation.round_answer is None:
            self._on_outcome_recorded(invocation, outcome)
            return outcome
        invocation.has_lost_race = True
        if found is not None and found.outcome is None and found.state != "unknown":
            return Pending("result", invocation.id, f"{invocation.tool_name} was answered elsewhere and goes on.")
        return outcome if found is None else self.stored_outcome(found)

    async def find(self, call_id: str) -> LedgerRow | None:
        """The row of a call."""
        store = await self._services.open_store()
        step = rows.find_statement(call_id)
        found = await store.database.read(step.sql, step.params)
        return LedgerRow.from_row(found[0]) if found else None

    def stored_outcome(self, call: LedgerRow) -> Outcome:
        """What is known of how a call ended."""
        outcome = stored_outcome(call)
        if isinstance(outcome, Done) and outcome.clipped_text is not None:
            self._services.outputs.add_reader_tool()  # its text may have been kept by another process
        return outcome

    def is_same_call(self, call: LedgerRow, invocation: Invocation) -> bool:
        """Whether an id stands for this call. One that the runtime made itself has no fingerprint until it is used."""
        if call.fingerprint:
            return invocation.ledger_row is not None and call.fingerprint == invocation.ledger_row.fingerprint
        who, listing = invocation.principal, invocation.listing
        if (call.tool, call.user_id, call.session) != (listing.name, who.user, who.session):
            return False
        try:
            return json_digest(listing.tool.validate_arguments(deserialize_arguments(call.arguments))) == json_digest(
                invocation.arguments
            )
        except InvalidArguments:
            return False


def _is_new_call(invocation: Invocation) -> bool:
    """Whether no row can be there yet."""
    return not (invocation.has_given_id or invocation.is_resumed or invocation.round)


def _expect_one_row(statement: Statement) -> Statement:
    return statement if statement.expect is not None else Statement(statement.sql, statement.params, expect=1)
