"""Verify: runs a tool's `verify` function for a call whose process died while its handler ran."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from surehand.core.call import Principal
from surehand.core.context import Context
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Failed
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.invocation.foreign_code import ForeignCodeError, run_foreign
from surehand.runtime.pending.answers import Answers
from surehand.runtime.pending.call_resumer import CallResumer
from surehand.runtime.pending.restored_call import RestoredCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, UnexpectedRowCount
from surehand.store.tables.pending import PendingRow

log = logging.getLogger("surehand")
_MARK_NOT_RUN = """UPDATE ledger
    SET state = CASE WHEN EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
    AND pending.answer IN ('approve', 'settle')) THEN 'ready' ELSE 'idle' END, fence = fence + 1
    WHERE call_id = :call_id AND state = 'unknown' AND fence = :fence RETURNING state"""
_DELETE_OPEN_WAIT = "DELETE FROM pending WHERE call_id = :call_id AND state = 'open'"


class EffectVerification:
    """Asks the tools of calls whose effect is unknown whether it has happened."""

    def __init__(
        self,
        store: RuntimeStore,
        restored_calls: RestoredCalls,
        answers: Answers,
        call_resumer: CallResumer,
        background_tasks: BackgroundTasks,
    ) -> None:
        self._store = store
        self._restored_calls = restored_calls
        self._answers = answers
        self._call_resumer = call_resumer
        self._background_tasks = background_tasks

    async def verify(self, row: PendingRow) -> None:
        """Settle the call with what `verify` returns: an outcome, a value, or False if the effect has not happened."""
        listing = self._restored_calls.find_listing(row)
        if listing is None or listing.tool.safety.verify is None or row.open_round is None:
            return
        invocation = self._restored_calls.restore_invocation(row)
        invocation.listing = listing
        try:
            invocation.arguments = listing.tool.validate_arguments(invocation.raw_arguments)
            verify = listing.tool.safety.verify
            finding = await run_foreign(
                self._background_tasks, verify, invocation.effective_arguments(), Context(invocation)
            )
        except (ForeignCodeError, InvalidArguments) as error:
            original = error.original if isinstance(error, ForeignCodeError) else error
            message = "The verify function of %s raised for call %s; its effect stays unknown"
            log.error(message, listing.name, row.call.call_id, exc_info=original)
            return
        await self._settle_with_finding(row, finding)

    async def _settle_with_finding(self, row: PendingRow, finding: Any) -> None:
        if finding is None:  # the tool cannot tell: a person has to settle the call
            return
        if finding is False:
            await self._record_not_run(row)
            return
        outcome = finding if isinstance(finding, (Done, Failed)) else Done(None if finding is True else finding)
        await self._answers.settle(Principal(), row.call.call_id, outcome, by="verify")

    async def _record_not_run(self, row: PendingRow) -> None:
        """Mark a call as not run: an approved one is resumed, any other may be tried again under its id."""
        params = {"call_id": row.call.call_id}
        store = await self._store.open()
        mark = Statement(_MARK_NOT_RUN, {**params, "fence": row.call.fence}, expect=1)
        with suppress(UnexpectedRowCount):  # the call was settled meanwhile, or ran again
            [[marked], *_] = await store.write([mark, Statement(_DELETE_OPEN_WAIT, params)])
            if marked["state"] == "idle":
                await self._call_resumer.following_calls.end_calls_that_follow_nothing(row.call.call_id)
