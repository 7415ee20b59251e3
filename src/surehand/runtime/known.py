"""Known: a call as the ledger keeps it, and what is said of how it ended."""

from __future__ import annotations

import json
from hashlib import sha256

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.plain import fingerprint, given_arguments
from surehand.store.ledger import Known
from surehand.store.outcomes import arguments_text, outcome_of


def said(call: Known) -> Outcome:
    """What is known of how a call ended."""
    if call.outcome is not None:
        return outcome_of(call.outcome)
    return unknown_effect(call.tool, call.call_id)


def unknown_effect(tool: str, call_id: str) -> Failed:
    """What is said of a call whose process died while it ran."""
    return Failed(
        "unknown_effect",
        f"it is not known whether {tool} has happened, because its process died while it ran. Do not repeat it: "
        f"a person has to find out and settle call {call_id}.",
        executed=True,
    )


def known(invocation: Invocation, *, owner: str | None = None, fence: int = 0) -> Known:
    """A call as the ledger keeps it."""
    who, listing = invocation.principal, invocation.listing
    return Known(
        invocation.id, fingerprint(invocation) if invocation.given else "", listing.name, listing.tool.definition,
        kept_arguments(invocation), who.user, who.session, who.agent, _context(invocation),
        owner=owner, fence=fence, posted=invocation.posted,
    )  # fmt: skip


def digest_of(text: str) -> str:
    """What the audit keeps of a text."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def kept_arguments(invocation: Invocation) -> str:
    """As a model wrote them where that is plain JSON: most calls need no further work."""
    raw = invocation.raw
    if type(raw) is str and raw and not invocation.mended and raw.isascii() and "NaN" not in raw and "Inf" not in raw:
        return raw
    return arguments_text(given_arguments(invocation))


def _context(invocation: Invocation) -> str:
    """What else belongs to the call; nothing, for most."""
    who = invocation.principal
    found = {
        "message": who.message, "task": who.task, "space": who.space, "turn": who.turn, "parent": invocation.parent,
        "model_id": invocation.model_id, "depth": invocation.depth, "given": invocation.given,
    }  # fmt: skip
    return json.dumps({name: value for name, value in found.items() if value}) if any(found.values()) else "{}"
