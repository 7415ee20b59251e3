"""Verify: a tool's own way to find out whether an effect has happened, when its process died while it ran."""

from __future__ import annotations

import inspect
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.context import Context
from surehand.core.outcome import Done, Failed
from surehand.runtime import settle
from surehand.runtime.resume import again_from, listing_of
from surehand.store.database import Statement, Unexpected
from surehand.store.pending import Held

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
_AGAIN = """UPDATE ledger SET state = CASE WHEN EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
    AND pending.answer IN ('approve', 'settle')) THEN 'ready' ELSE 'idle' END
    WHERE call_id = :call_id AND state = 'unknown' AND fence = :fence"""
_FORGET = "DELETE FROM pending WHERE call_id = :call_id AND state = 'open'"


async def verify(scope: Scope, held: Held) -> None:
    """Settle the call with what the tool finds out: an outcome, a value, or False for "it has not happened"."""
    listing = listing_of(scope.parts, held)
    if listing is None or listing.tool.safety.verify is None or held.wait is None:
        return
    again, _ = again_from(scope.parts, held)
    again.listing = listing
    try:
        again.arguments = listing.tool.check(again.raw)
        found = listing.tool.safety.verify(again.effective(), Context(again))
        found = await found if inspect.isawaitable(found) else found
    except Exception:
        log.exception("%s could not find out whether call %s has happened", listing.name, held.call.call_id)
        return
    await _settle(scope, held, found)


async def _settle(scope: Scope, held: Held, found: Any) -> None:
    if found is None:  # it cannot tell: a person has to
        return
    if found is False:
        await _has_not_happened(scope, held)
        return
    outcome = found if isinstance(found, (Done, Failed)) else Done(None if found is True else found)
    await settle.settle(scope.parts.root, held.call.call_id, outcome, by="verify")


async def _has_not_happened(scope: Scope, held: Held) -> None:
    """It goes on if somebody let it run, and else may be tried again under its id."""
    whose = {"call_id": held.call.call_id}
    store = await scope.parts.remembered()
    again = Statement(_AGAIN, {**whose, "fence": held.call.fence}, expect=1)
    with suppress(Unexpected):  # somebody else found out, or settled it; or it ran again since
        await store.write([again, Statement(_FORGET, whose)])
