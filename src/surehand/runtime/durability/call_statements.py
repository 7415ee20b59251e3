"""Call statements: what is written to the store when a call starts and when it ends, each in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from surehand.catalogue.listing import Listing
from surehand.core.call import CallIdentity
from surehand.core.ids import derive_run_id
from surehand.core.outcome import Done, Failed
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import (
    build_ledger_row,
    serialize_call_arguments,
    sha256_hex,
)
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.invocation import CallScope, Invocation
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, validate_params
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.inbox import tool_result_event
from surehand.store.tables.ledger import LedgerRow
from surehand.store.tables.runs import cancel_run_statement

if TYPE_CHECKING:
    from surehand.store.store import Store

LARGE_ARGUMENTS_BYTES = 64 << 10
"""A store in memory drops larger arguments when the call has ended."""


_new_tuple = tuple.__new__
"""Builds a Statement in half the time of its constructor; a durable call needs five."""
_EXTRA_CHARACTERS = 300
"""Upper estimate of what an id, two digests and a code add to a row."""


class RecordTemplate:
    """Prepared rows of ledger, audit and journal for the plain calls of one tool in one scope.

    The parameters that all these calls share are built and validated once, not for every call.
    """

    def __init__(self, store: Store, call: LedgerRow, owner_id: str, identity: CallIdentity) -> None:
        name = call.tool
        self._start_statement = ledger_table.start_statement(call)
        self._end_statement = ledger_table.end_statement("", "", owner=owner_id, fence=call.fence)
        self._intent_audit = store.audit.row_statement("intent", "", name, identity=identity, detail={})
        self._outcome_audit = store.audit.row_statement("outcome", "", name, identity=identity, detail={})
        self._journal_entry = store.journal.entry_statement("ended", "", name, "", identity=identity)
        statements = (
            self._start_statement,
            self._end_statement,
            self._intent_audit,
            self._outcome_audit,
            self._journal_entry,
        )
        self._max_parameter_size = (
            max([validate_params(statement.params) for statement in statements]) + _EXTRA_CHARACTERS
        )

    def start_statements(self, call_id: str, arguments: str, repeat_key: str | None) -> list[Statement]:
        """Statements for the start of a call: its ledger row and the audit."""
        detail = f'{{"arguments":"{sha256_hex(arguments)}"}}'
        row = {**self._start_statement.params, "call_id": call_id, "arguments": arguments, "repeat_key": repeat_key}
        audit = {**self._intent_audit.params, "call_id": call_id, "detail": detail}
        size = self._max_parameter_size
        return [
            _new_tuple(Statement, (self._start_statement.sql, row, 1, size + len(arguments))),
            _new_tuple(Statement, (self._intent_audit.sql, audit, 1, size)),
        ]

    def end_statements(self, call_id: str, outcome: str, code: str, latency_ms: float) -> list[Statement]:
        """Statements for the end of a call: its ledger row, the audit and the journal."""
        detail = f'{{"code":"{code}","outcome":"{sha256_hex(outcome)}"}}'
        size = self._max_parameter_size
        row = {**self._end_statement.params, "call_id": call_id, "outcome": outcome}
        audit = {**self._outcome_audit.params, "call_id": call_id, "detail": detail}
        entry = {**self._journal_entry.params, "call_id": call_id, "status": code, "latency_ms": latency_ms}
        return [
            _new_tuple(Statement, (self._end_statement.sql, row, 1, size + len(outcome))),
            _new_tuple(Statement, (self._outcome_audit.sql, audit, 1, size)),
            _new_tuple(Statement, (self._journal_entry.sql, entry, 1, size)),
        ]


class CallStatements:
    """Builds the rows of a call in ledger, inbox, audit, journal and space."""

    def __init__(self, store: RuntimeStore, journal: StoreJournal, messages: CallMessages) -> None:
        self._store = store
        self._journal = journal
        self._messages = messages
        self._templates: WeakKeyDictionary[CallScope, dict[Listing, RecordTemplate]] = WeakKeyDictionary()
        """Prepared rows for the plain calls of each scope and tool."""

    def start(self, store: Store, invocation: Invocation) -> list[Statement]:
        """Statements for a new call; a plain call uses the template of its tool and scope."""
        template = self._template_for(store, invocation)
        if template is not None:
            invocation.note_template(template)
            arguments = serialize_call_arguments(invocation)
            return template.start_statements(invocation.id, arguments, invocation.stored.repeat_key)
        row = build_ledger_row(invocation, owner_id=self._store.owner_id, fence=1)
        invocation.note_row(row)
        return [ledger_table.start_statement(row), *self.intent_audit(invocation)]

    def _template_for(self, store: Store, invocation: Invocation) -> RecordTemplate | None:
        """The template for a plain call of this tool and scope; None if the call has a context of its own."""
        templates = self._templates.get(invocation.scope)
        if templates is None:
            templates = self._templates.setdefault(invocation.scope, {})
        listing = invocation.listing
        template = templates.get(listing)
        if template is not None and invocation.request.parent is None and invocation.request.model_id is None:
            return template if invocation.message.id is None else None
        owner_id = self._store.owner_id
        call = build_ledger_row(invocation, owner_id=owner_id, fence=1)
        if call.context != "{}" or call.posted is not None or not self._store.is_durable:
            return None
        return templates.setdefault(listing, RecordTemplate(store, call, owner_id, invocation.identity))

    def intent_audit(self, invocation: Invocation) -> list[Statement]:
        """The audit row for a claim, in the same transaction: no effect without it."""
        store = self._store.current
        if not self._store.is_durable or store is None:
            return []
        row = invocation.stored.row
        detail = {"arguments": sha256_hex(row.arguments) if row else None}
        name = invocation.listing.name
        return [store.audit.row_statement("intent", invocation.id, name, identity=invocation.identity, detail=detail)]

    def end(self, invocation: Invocation, outcome: Done | Failed, text: str, *, fence: int | None) -> list[Statement]:
        """All statements of one transaction that ends a call.

        Args:
            text: the serialized outcome.
            fence: the fence of the claim that the call ends under.
        """
        call_id = invocation.id
        template = invocation.stored.end_template
        if template is not None and fence == 1 and not invocation.resumption.round:
            code = outcome.code if isinstance(outcome, Failed) else "ok"
            return template.end_statements(call_id, text, code, invocation.elapsed_seconds() * 1000)
        answer = invocation.claim.answer
        if answer is not None:
            statements = [
                answer.statement(),
                ledger_table.end_open_statement(call_id, text),
                *_cancel_followed_run(invocation, outcome),
            ]
        elif fence is not None:
            statements = [ledger_table.end_statement(call_id, text, owner=self._store.owner_id, fence=fence)]
        else:
            statements = [ledger_table.end_unclaimed_statement(call_id, text)]
        row = invocation.stored.row
        if not self._store.is_durable and row is not None and len(row.arguments) > LARGE_ARGUMENTS_BYTES:
            statements.append(ledger_table.clear_arguments_statement(call_id))
        return [
            *statements,
            *self._inbox_statements(invocation, outcome),
            *self._outcome_audit(invocation, outcome, text),
            *(() if invocation.message.id is None else self._messages.amend_statements(invocation, outcome)),
        ]

    def _inbox_statements(self, invocation: Invocation, outcome: Done | Failed) -> list[Statement]:
        """The inbox item for an agent that got Pending; a caller that still waits gets the outcome directly."""
        if not invocation.is_resumed or not self._store.is_durable:
            return []
        principal = invocation.principal
        store = self._store.current
        result = outcome.data if isinstance(outcome, Done) else {"error": outcome.message, "code": outcome.code}
        assert store is not None
        item = tool_result_event(invocation.id, invocation.tool_name, principal.turn, result, invocation.identity)
        return [store.inbox.push_statement(principal.agent or "", *item, user=principal.user)]

    def _outcome_audit(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        """The rows of audit and journal, in the same transaction as the outcome."""
        store = self._store.current
        if not self._store.is_durable or store is None:
            return []
        call_id = invocation.id
        name = invocation.listing.name
        whose = invocation.identity
        code = outcome.code if isinstance(outcome, Failed) else "ok"
        detail = {"code": code, "outcome": sha256_hex(text)}
        outcome_row = store.audit.row_statement("outcome", call_id, name, identity=whose, detail=detail)
        ended = self._journal.statements(invocation, "ended", code)
        answer = invocation.claim.answer
        if answer is None:
            return [outcome_row, *ended]
        answered = {"answer": answer.answer, "answer_digest": answer.answer_digest, "round": answer.round}
        answer_row = store.audit.row_statement(
            "answer", call_id, name, identity=whose, by=answer.answered_by, detail=answered
        )
        settled = self._journal.statements(invocation, "settled", answer.answer)
        return [answer_row, outcome_row, *settled, *ended]


def _cancel_followed_run(invocation: Invocation, outcome: Done | Failed) -> list[Statement]:
    """The run that a call waits for ends with the call, in the same transaction, if nobody needs its report any more.

    The maintenance of any runtime then ends the calls of the run.
    """
    answer = invocation.claim.answer
    if answer is None or answer.answer not in ("cancel", "expire") or not isinstance(outcome, Failed):
        return []
    problem = f"The call that started this run has ended: {outcome.message}"
    return [cancel_run_statement(derive_run_id(invocation.id), problem)]
