"""Verify: a tool's own way to find out whether an effect has happened, when its process died while it ran."""

from __future__ import annotations

import inspect
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.context import Context
from surehand.core.outcome import Done, Failed
from surehand.runtime.pending import decisions
from surehand.runtime.pending.restored_call import find_listing, restore_invocation
from surehand.store.database import Statement, UnexpectedRowCount
from surehand.store.tables.pending import PendingRow

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
_MARK_NOT_RUN = """UPDATE ledger SET state = CASE WHEN EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
    AND pending.answer IN ('approve', 'settle')) THEN 'ready' ELSE 'idle' END
    WHERE call_id = :call_id AND state = 'unknown' AND fence = :fence"""
_DELETE_OPEN_WAIT = "DELETE FROM pending WHERE call_id = :call_id AND state = 'open'"


async def verify_effect(scope: Scope, row: PendingRow) -> None:
    """Settle the call with what the tool finds out: an outcome, a value, or False for "it has not happened"."""
    listing = find_listing(scope.services, row)
    if listing is None or listing.tool.safety.verify is None or row.open_round is None:
        return
    again, _ = restore_invocation(scope.services, row)
    again.listing = listing
    try:
        again.arguments = listing.tool.validate_arguments(again.raw_arguments)
        found = listing.tool.safety.verify(again.effective_arguments(), Context(again))
        found = await found if inspect.isawaitable(found) else found
    except Exception:
        log.exception("%s could not find out whether call %s has happened", listing.name, row.call.call_id)
        return
    await _settle_with_finding(scope, row, found)


async def _settle_with_finding(scope: Scope, row: PendingRow, finding: Any) -> None:
    if finding is None:  # it cannot tell: a person has to
        return
    if finding is False:
        await _record_not_run(scope, row)
        return
    outcome = finding if isinstance(finding, (Done, Failed)) else Done(None if finding is True else finding)
    await decisions.settle(scope.services.root_scope, row.call.call_id, outcome, by="verify")


async def _record_not_run(scope: Scope, row: PendingRow) -> None:
    """It goes on if somebody let it run, and else may be tried again under its id."""
    whose = {"call_id": row.call.call_id}
    store = await scope.services.open_store()
    again = Statement(_MARK_NOT_RUN, {**whose, "fence": row.call.fence}, expect=1)
    with suppress(UnexpectedRowCount):  # somebody else found out, or settled it; or it ran again since
        await store.write([again, Statement(_DELETE_OPEN_WAIT, whose)])
