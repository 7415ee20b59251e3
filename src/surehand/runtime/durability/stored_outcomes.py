"""Stored outcomes: reads what the ledger knows of a call."""

from __future__ import annotations

from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Outcome
from surehand.runtime.durability.call_record import outcome_of_row
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.serialization import deserialize_arguments
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.ledger import LedgerRow


class StoredOutcomes:
    """Finds the ledger rows of calls, and the outcomes in them."""

    def __init__(self, store: RuntimeStore, outputs: OversizedOutputs) -> None:
        self._store = store
        self._outputs = outputs

    async def find(self, call_id: str) -> LedgerRow | None:
        """Find the row of a call."""
        store = await self._store.open()
        query = ledger_table.find_statement(call_id)
        rows = await store.database.read(query.sql, query.params)
        return LedgerRow.from_row(rows[0]) if rows else None

    def outcome_of(self, call: LedgerRow) -> Outcome:
        """The stored outcome of a call; makes sure that its artifact can be read here."""
        outcome = outcome_of_row(call)
        if isinstance(outcome, Done) and outcome.clipped_text is not None:
            self._outputs.add_reader_tool()  # another process may have stored the artifact
        return outcome


def is_same_call(call: LedgerRow, invocation: Invocation) -> bool:
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
