"""Call record: the row of a call in the ledger, made of an invocation, and the outcome that such a row holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from surehand.catalogue.listing import Listing
from surehand.core.call import Call, CallIdentity
from surehand.core.canonical_json import json_digest
from surehand.core.content import to_text
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import CallMeta, Done, Failed, Outcome, attach_origin
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.invocation.json_arguments import call_fingerprint, load_json_arguments, original_arguments
from surehand.runtime.invocation.scope_key import has_own_parts
from surehand.runtime.named_scopes import OWN_TOOL_KEY, SCOPE_KEY
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.serialization import deserialize_arguments, deserialize_outcome, serialize_arguments
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.ledger import LedgerRow

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The call behind a stored outcome, for its `meta` and `as_legacy`. Its kind and its attempts are not stored."""

    call: Call
    created_at: float
    ended_at: float | None = None
    """None if the call has not ended."""

    @property
    def tool_name(self) -> str:
        """The name of its tool."""
        return self.call.tool

    def build_meta(self, outcome: Outcome) -> CallMeta:
        """The id, tool, times and sizes of the call."""
        characters = len(outcome.text)
        seconds = 0.0 if self.ended_at is None else self.ended_at - self.created_at
        return CallMeta(
            call_id=self.call.id or "",
            tool=self.call.tool,
            started_at=self.created_at,
            latency_ms=seconds * 1000,
            characters_in=len(to_text(self.call.arguments)),
            characters_out=characters,
            tokens=-(-characters // 4),
        )


def outcome_of_row(call: LedgerRow) -> Outcome:
    """The outcome in a ledger row; `unknown_effect` if there is none."""
    if call.outcome is None:
        outcome: Outcome = unknown_effect_failure(call.tool, call.call_id)
    else:
        outcome = deserialize_outcome(call.outcome)
    attach_origin(outcome, stored_call(call))
    return outcome


def stored_call(row: LedgerRow) -> StoredCall:
    """The call in a ledger row, as the origin of its outcome."""
    context = json.loads(row.context)
    fields: dict[str, Any] = {"agent": row.agent, "session": row.session, "user": row.user_id}
    fields |= {name: context.get(name) for name in ("message", "task", "space", "turn", "parent", "model_id")}
    call = Call(row.tool, load_json_arguments(row.arguments), id=row.call_id, **fields)
    return StoredCall(call, row.created_at, row.ended_at)


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
        return invocation.stored.row is not None and call.fingerprint == invocation.stored.row.fingerprint
    principal = invocation.principal
    listing = invocation.listing
    if (call.tool, call.user_id, call.session) != (listing.name, principal.user, principal.session):
        return False
    try:
        stored_arguments = listing.tool.validate_arguments(deserialize_arguments(call.arguments))
    except InvalidArguments:
        return False
    return json_digest(stored_arguments) == json_digest(invocation.arguments)


def unknown_effect_failure(tool: str, call_id: str) -> Failed:
    """The outcome of a call whose process died while it ran."""
    return Failed(
        "unknown_effect",
        f"it is not known whether {tool} has happened, because its process died while it ran. Do not repeat it: "
        f"a person has to find out and settle call {call_id}.",
        executed=True,
    )


def build_ledger_row(invocation: Invocation, *, owner_id: str | None = None, fence: int = 0) -> LedgerRow:
    """Convert an invocation to its ledger row."""
    principal = invocation.principal
    listing = invocation.listing
    return LedgerRow(
        call_id=invocation.id,
        fingerprint=call_fingerprint(invocation) if invocation.has_given_id else "",
        tool=listing.name,
        definition=listing.tool.approval_binding,
        arguments=serialize_call_arguments(invocation),
        user_id=principal.user,
        session=principal.session,
        agent=principal.agent,
        context=_serialize_context(invocation),
        owner=owner_id,
        fence=fence,
        posted=invocation.message.id,
        repeat_key=invocation.stored.repeat_key,
    )


def identity_of_stored_call(call: LedgerRow, listing: Listing | None) -> CallIdentity:
    """Whose call a ledger row is about; intent and display are those of its tool, if this process has it."""
    context = json.loads(call.context)
    presentation = None if listing is None else listing.tool.presentation
    return CallIdentity(
        parent=context.get("parent"),
        model_id=context.get("model_id"),
        intent=None if presentation is None else presentation.intent,
        display={} if presentation is None else dict(presentation.display),
        user=call.user_id,
        session=call.session,
        agent=call.agent,
        space=context.get("space"),
        turn=context.get("turn"),
        task=context.get("task"),
    )


def sha256_hex(text: str) -> str:
    """The digest of a text that the audit stores instead of the text."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def serialize_call_arguments(invocation: Invocation) -> str:
    """The arguments as JSON; the model's own text if it is plain ASCII JSON, which saves serialising most calls."""
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


def _is_own_tool(invocation: Invocation) -> bool:
    """Whether the tool belongs to the scope of the call alone."""
    own = invocation.scope.own_catalogue
    return own is not None and own.find(invocation.listing.name) is not None


def _serialize_context(invocation: Invocation) -> str:
    """The other fields of the call as JSON; most calls have none."""
    principal = invocation.principal
    fields = {
        "message": principal.message,
        "task": principal.task,
        "space": principal.space,
        "turn": principal.turn,
        "parent": invocation.request.parent,
        "model_id": invocation.request.model_id,
        "depth": invocation.request.nesting_depth,
        "given": invocation.has_given_id,
        "memory_dir": invocation.memory_dir,
        "session_dir": invocation.session_dir,
        "allowed_paths": invocation.scope.folders.allowed_paths,
        "own_scope": has_own_parts(invocation.scope),
        SCOPE_KEY: invocation.scope.scope_name,
        OWN_TOOL_KEY: invocation.scope.scope_name is not None and _is_own_tool(invocation),
    }
    if not any(fields.values()):
        return "{}"
    return json.dumps({name: value for name, value in fields.items() if value})
