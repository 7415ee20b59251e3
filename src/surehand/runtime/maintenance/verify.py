"""Verify: runs a tool's `verify` function for a call whose process died while its handler ran."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.context import Context
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Failed
from surehand.runtime.invocation.foreign_code import ForeignCodeError, run_foreign
from surehand.runtime.pending import answers
from surehand.runtime.pending.restored_call import find_listing, restore_invocation
from surehand.runtime.pending.resumption import end_calls_that_follow_nothing
from surehand.store.database import Statement, UnexpectedRowCount
from surehand.store.tables.pending import PendingRow

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
_MARK_NOT_RUN = """UPDATE ledger
    SET state = CASE WHEN EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
    AND pending.answer IN ('approve', 'settle')) THEN 'ready' ELSE 'idle' END
    WHERE call_id = :call_id AND state = 'unknown' AND fence = :fence RETURNING state"""
_DELETE_OPEN_WAIT = "DELETE FROM pending WHERE call_id = :call_id AND state = 'open'"


async def verify_effect(scope: Scope, row: PendingRow) -> None:
    """Settle the call with what `verify` returns: an outcome, a value, or False if the effect has not happened."""
    listing = find_listing(scope.services, row)
    if listing is None or listing.tool.safety.verify is None or row.open_round is None:
        return
    invocation = restore_invocation(scope.services, row)
    invocation.listing = listing
    try:
        invocation.arguments = listing.tool.validate_arguments(invocation.raw_arguments)
        verify = listing.tool.safety.verify
        background_tasks = scope.services.background_tasks
        finding = await run_foreign(background_tasks, verify, invocation.effective_arguments(), Context(invocation))
    except (ForeignCodeError, InvalidArguments) as error:
        original = error.original if isinstance(error, ForeignCodeError) else error
        message = "The verify function of %s raised for call %s; its effect stays unknown"
        log.error(message, listing.name, row.call.call_id, exc_info=original)
        return
    await _settle_with_finding(scope, row, finding)


async def _settle_with_finding(scope: Scope, row: PendingRow, finding: Any) -> None:
    if finding is None:  # the tool cannot tell: a person has to settle the call
        return
    if finding is False:
        await _record_not_run(scope, row)
        return
    outcome = finding if isinstance(finding, (Done, Failed)) else Done(None if finding is True else finding)
    await answers.settle(scope.services.root_scope, row.call.call_id, outcome, by="verify")


async def _record_not_run(scope: Scope, row: PendingRow) -> None:
    """Mark a call as not run: an approved one is resumed, any other may be tried again under its id."""
    params = {"call_id": row.call.call_id}
    store = await scope.services.open_store()
    mark = Statement(_MARK_NOT_RUN, {**params, "fence": row.call.fence}, expect=1)
    with suppress(UnexpectedRowCount):  # the call was settled meanwhile, or ran again
        [[marked], *_] = await store.write([mark, Statement(_DELETE_OPEN_WAIT, params)])
        if marked["state"] == "idle":
            await end_calls_that_follow_nothing(scope, row.call.call_id)
