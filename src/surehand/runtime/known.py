"""Known: a call as the ledger keeps it, and what is said of how it ended."""

from __future__ import annotations

import json
from hashlib import sha256

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.plain import call_fingerprint, original_arguments
from surehand.store.ledger import LedgerRow
from surehand.store.outcomes import deserialize_outcome, serialize_arguments


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
    }  # fmt: skip
    return json.dumps({name: value for name, value in found.items() if value}) if any(found.values()) else "{}"
