"""Known: a call as the ledger keeps it, and what is said of how it ended."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.durability.json_arguments import call_fingerprint, original_arguments
from surehand.runtime.pipeline.invocation import Invocation
from surehand.store.database import Statement, validate_params
from surehand.store.serialization import deserialize_outcome, serialize_arguments
from surehand.store.tables import ledger as rows
from surehand.store.tables.ledger import LedgerRow

if TYPE_CHECKING:
    from surehand.store.store import Store

_new_tuple = tuple.__new__
"""Makes a statement in half the time that its own constructor takes; a durable call makes five."""
_EXTRA_CHARACTERS = 200
"""Characters that an id, a digest and a code add to a row, roughly."""


class RecordTemplate:
    """What all calls of one tool in one scope have in common is written and looked at once."""

    def __init__(self, store: Store, call: LedgerRow, owner_id: str) -> None:
        name, user = call.tool, call.user_id
        self._start_statement = rows.start_statement(call)
        self._end_statement = rows.end_statement("", "", owner=owner_id, fence=call.fence)
        self._intent_audit = store.audit.row_statement("intent", "", name, user=user, detail={})
        self._outcome_audit = store.audit.row_statement("outcome", "", name, user=user, detail={})
        self._journal_entry = store.journal.entry_statement("ended", "", name, "", user=user, session=call.session)
        steps = (
            self._start_statement,
            self._end_statement,
            self._intent_audit,
            self._outcome_audit,
            self._journal_entry,
        )
        self._max_parameter_size = max([validate_params(step.params) for step in steps]) + _EXTRA_CHARACTERS

    def start_statements(self, call_id: str, arguments: str) -> list[Statement]:
        """The call runs, and the audit says so."""
        detail = f'{{"arguments":"{_sha256_hex(arguments)}"}}'
        row = {**self._start_statement.params, "call_id": call_id, "arguments": arguments}
        told = {**self._intent_audit.params, "call_id": call_id, "detail": detail}
        size = self._max_parameter_size
        return [
            _new_tuple(Statement, (self._start_statement.sql, row, 1, size + len(arguments))),
            _new_tuple(Statement, (self._intent_audit.sql, told, 1, size)),
        ]

    def end_statements(self, call_id: str, outcome: str, code: str, latency_ms: float) -> list[Statement]:
        """The call has ended, and the audit and the journal say so."""
        detail, size = f'{{"code":"{code}","outcome":"{_sha256_hex(outcome)}"}}', self._max_parameter_size
        row = {**self._end_statement.params, "call_id": call_id, "outcome": outcome}
        told = {**self._outcome_audit.params, "call_id": call_id, "detail": detail}
        entry = {**self._journal_entry.params, "call_id": call_id, "status": code, "latency_ms": latency_ms}
        return [
            _new_tuple(Statement, (self._end_statement.sql, row, 1, size + len(outcome))),
            _new_tuple(Statement, (self._outcome_audit.sql, told, 1, size)),
            _new_tuple(Statement, (self._journal_entry.sql, entry, 1, size)),
        ]


def _sha256_hex(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def stored_outcome(call: LedgerRow) -> Outcome:
    """What is known of how a call ended."""
    if call.outcome is not None:
        return deserialize_outcome(call.outcome)
    return unknown_effect_failure(call.tool, call.call_id)


def unknown_effect_failure(tool: str, call_id: str) -> Failed:
    """What is said of a call whose process died while it ran."""
    return Failed(
        "unknown_effect",
        f"it is not known whether {tool} has happened, because its process died while it ran. Do not repeat it: "
        f"a person has to find out and settle call {call_id}.",
        executed=True,
    )


def build_ledger_row(invocation: Invocation, *, owner_id: str | None = None, fence: int = 0) -> LedgerRow:
    """A call as the ledger keeps it."""
    who, listing = invocation.principal, invocation.listing
    return LedgerRow(
        invocation.id, call_fingerprint(invocation) if invocation.has_given_id else "", listing.name, listing.tool.definition_digest,
        serialize_call_arguments(invocation), who.user, who.session, who.agent, _serialize_context(invocation),
        owner=owner_id, fence=fence, posted=invocation.message_id,
    )  # fmt: skip


def sha256_hex(text: str) -> str:
    """What the audit keeps of a text."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def serialize_call_arguments(invocation: Invocation) -> str:
    """As a model wrote them where that is plain JSON: most calls need no further work."""
    raw = invocation.raw_arguments
    if (
        type(raw) is str
        and raw
        and not invocation.is_repaired
        and raw.isascii()
        and "NaN" not in raw
        and "Inf" not in raw
    ):
        return raw
    return serialize_arguments(original_arguments(invocation))


def _serialize_context(invocation: Invocation) -> str:
    """What else belongs to the call; nothing, for most."""
    who = invocation.principal
    found = {
        "message": who.message, "task": who.task, "space": who.space, "turn": who.turn, "parent": invocation.parent,
        "model_id": invocation.model_id, "depth": invocation.nesting_depth, "given": invocation.has_given_id,
        "memory_dir": invocation.memory_dir, "session_dir": invocation.session_dir,
    }  # fmt: skip
    return json.dumps({name: value for name, value in found.items() if value}) if any(found.values()) else "{}"
