"""Answers: what `approve`, `reject`, `settle` and `cancel` of a scope do.

They check whether an answer is valid for the open question of a call; `resumption` then applies it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from surehand.core.call import CallIdentity, Principal
from surehand.core.content import to_json
from surehand.core.errors import FailureCode, InvalidArguments
from surehand.core.fast_copy import copy_if_possible
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending, attach_origin
from surehand.core.strict_json import parse_json
from surehand.runtime.durability.call_record import identity_of_stored_call, stored_call
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.answer import Answer, AnswerKind
from surehand.runtime.pending.call_resumer import CallResumer, store_failure, wait_for_task
from surehand.runtime.pending.cancelled_runs import CancelledRuns
from surehand.runtime.pending.local_calls import ExpiryTimer
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.restored_call import RestoredCalls
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import StoreError, UnstorableValue, to_storable_name
from surehand.store.serialization import deserialize_outcome, serialize_arguments
from surehand.store.tables.pending import PendingRound, PendingRow

log = logging.getLogger("surehand")
_PAST_TENSE = {
    "approve": "approved",
    "reject": "rejected",
    "settle": "settled",
    "cancel": "cancelled",
    "expire": "expired",
}
MAX_ANSWER_ATTEMPTS = 10
"""How often an answer is checked again because another one was stored at the same moment."""
_EXPECTED_ANSWERS = {
    "approval": ("approve", "reject"),
    "result": ("settle", "reject"),
    "input": ("settle", "reject"),
}


class Answers:
    """Checks the answers to pending calls, and has those applied that count."""

    def __init__(
        self,
        store: RuntimeStore,
        pending_calls: PendingCalls,
        call_resumer: CallResumer,
        restored_calls: RestoredCalls,
        cancelled_runs: CancelledRuns,
        *,
        expiry_timer: ExpiryTimer,
        running: RunningCalls,
    ) -> None:
        self._store = store
        self._pending_calls = pending_calls
        self._call_resumer = call_resumer
        self._restored_calls = restored_calls
        self._cancelled_runs = cancelled_runs
        self._expiry_timer = expiry_timer
        self._running = running

    async def approve(
        self, viewer: Principal, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
    ) -> Outcome:
        """Let a call run, optionally with edited arguments; invalid arguments leave it pending."""
        try:
            if isinstance(arguments, (str, bytes)):  # arguments as JSON text, as models write them
                arguments = parse_json(arguments)
            arguments = copy_if_possible(arguments)  # the caller may change its own while the answer is stored
            if arguments is not None:
                refusal = await self._validate_edited_arguments(viewer, call_id, arguments, by)
                if refusal is not None:
                    return refusal
        except InvalidArguments as error:
            return failed_from_error(error).evolve(executed=False)
        except StoreError as error:
            return store_failure(error)
        approval = Approval(True, always, arguments, by=by)
        return await self._submit(viewer, call_id, Answer("approve", approval=approval, by=by, round=round))

    async def end_calls_that_follow_run(self, run_id: str) -> None:
        """End the calls that wait for a run of an agent which has ended."""
        await self._call_resumer.following_calls.end_calls_that_follow_run(run_id)

    async def cancel_run(self, viewer: Principal, run_id: str, reason: str) -> bool:
        """Stop a run of an agent for good, and end its calls; False if it has ended, or is not the viewer's."""
        return await self._cancelled_runs.cancel(run_id, reason, viewer)

    async def _validate_edited_arguments(
        self, viewer: Principal, call_id: str, arguments: Any, by: str | None
    ) -> Outcome | None:
        """Validate edited arguments against the tool of the call; returns the failure, if any, and audits it."""
        pending_calls = self._pending_calls
        row = await pending_calls.find(str(call_id), viewer)
        while row is not None and row.open_round is not None and row.open_round.inner_call_id is not None:
            row = await pending_calls.find(row.open_round.inner_call_id, viewer)  # the edits are for the inner call
        if row is None:
            return None
        listing = self._restored_calls.find_listing(row)
        if listing is None:
            return Failed("unavailable", f"{row.call.tool} is not here, so edited arguments cannot be checked.")
        try:
            listing.tool.validate_arguments(arguments)
            serialize_arguments(arguments)
        except InvalidArguments as error:
            refusal = failed_from_error(error).evolve(executed=False)
        except UnstorableValue as error:
            refusal = Failed("invalid_arguments", f"{error} The call still waits.")
        else:
            return None
        return await self._audit_refusal(viewer, row, Answer("approve", by=to_storable_name(by)), refusal)

    async def reject(
        self,
        viewer: Principal,
        call_id: str,
        *,
        reason: str,
        by: str | None,
        code: FailureCode = "rejected",
        round: int | None = None,
    ) -> Outcome:
        """End a call without running its handler."""
        approval = Approval(False, reason=reason, by=by, code=code)
        return await self._submit(
            viewer, call_id, Answer("reject", approval=approval, by=by, reason=reason, round=round)
        )

    async def settle(
        self, viewer: Principal, call_id: str, result: Any, *, by: str | None, round: int | None = None
    ) -> Outcome:
        """Answer a call with the result of a person, a browser or a webhook: a value, a Done or a Failed."""
        value = result if isinstance(result, (Done, Failed)) else Done(copy_if_possible(result))
        answer = Answer("settle", value=value, by=by, round=round)
        try:
            if isinstance(value, Done):
                to_json(value.data)
            answer.validate()
        except Exception as error:  # noqa: BLE001 - any value may be given: whatever is wrong with it, the call stays pending
            return Failed("invalid_arguments", f"The answer cannot be written as JSON: {error}. The call still waits.")
        return await self._submit(viewer, call_id, answer)

    async def end_without_answer(
        self, viewer: Principal, call_id: str, code: FailureCode, message: str, by: str | None = None
    ) -> Outcome:
        """Cancel or expire a pending call, or an answered call that no runtime has resumed."""
        kind: AnswerKind = "expire" if code == "expired" else "cancel"
        try:
            row = await self._pending_calls.find(call_id, viewer)
        except StoreError as error:
            return store_failure(error)
        if row is None or not (row.open_round or row.is_ready):
            return _unknown_call_failure(call_id)
        if row.call.state == "unknown":  # the effect may have happened: only `settle` or `verify` can end it
            return self._pending_calls.outcome_of_row(row)
        return await self._submit(viewer, call_id, Answer.refusal(row.rounds[-1], kind, code, message, by))

    async def _submit(self, viewer: Principal, call_id: str, answer: Answer) -> Outcome:
        """Check an answer and apply it; returns the outcome of the call or the reason for the refusal."""
        if self._store.is_durable and self._store.current is None:
            return Failed("unavailable", "The runtime is not running; the call still waits.")
        if to_storable_name(answer.by) != answer.by:
            problem = f"`by` cannot be stored as a name: {answer.by!r:.80}. The call still waits."
            return Failed("invalid_arguments", problem)
        try:
            return await self._find_and_answer(viewer, call_id, answer)
        except StoreError as error:
            return store_failure(error)

    async def _find_and_answer(self, viewer: Principal, call_id: str, answer: Answer) -> Outcome:
        for _ in range(MAX_ANSWER_ATTEMPTS):  # another answer may be stored first: then this one is checked again
            row = await self._pending_calls.find(str(call_id), viewer)
            if row is None:
                return await self._audit_refusal(viewer, str(call_id), answer, _unknown_call_failure(str(call_id)))
            await self._restored_calls.load_offered_tool(row)
            if (outcome := await self._answer_row(viewer, row, answer)) is not None:
                return outcome
            # Another answer was first. This one was given to the same question, and must not count for the next one.
            if answer.round is None and row.open_round is not None and row.open_round.inner_call_id is None:
                answer = replace(answer, round=row.open_round.round)
        problem = f"Call {call_id} was answered by others {MAX_ANSWER_ATTEMPTS} times meanwhile. Try again."
        return Failed("conflict", problem)

    async def _answer_row(self, viewer: Principal, row: PendingRow, answer: Answer) -> Outcome | None:
        """Answer a call whose row was read; None if another answer was stored at the same moment."""
        in_progress = self._call_resumer.find_in_progress(row.call.call_id)
        if in_progress is not None:
            is_same = answer.is_for_round(in_progress.round) and answer.is_same_as(
                in_progress.kind, in_progress.answer_digest
            )
            if in_progress.task is not None and is_same:
                return await wait_for_task(in_progress.task)
            if in_progress.task is not None and in_progress.kind == "expire":
                await wait_for_task(in_progress.task)  # check again: this answer then fails as `expired`
                return None
            return await self._audit_refusal(viewer, row, answer)
        if row.is_ready and answer.kind in ("cancel", "expire"):
            return await self._call_resumer.resume_ready_call(row, answer.for_round(row.rounds[-1]))
        objection = self._find_objection(row, answer)
        if objection is not None:
            return await self._handle_ineffective_answer(viewer, row, answer, objection)
        open_round = row.open_round
        assert open_round is not None
        if open_round.inner_call_id is not None and answer.kind != "expire":
            return await self._answer_inner_call(
                viewer, row, open_round.inner_call_id, answer.for_inner_call(open_round)
            )
        answer = answer.as_rejection_of(open_round)
        outcome = await self._call_resumer.apply_answer(row, open_round, answer, viewer)
        if open_round.inner_run_id is not None:  # it was cancelled with the call
            await self._cancelled_runs.end_calls(open_round.inner_run_id)
        return outcome

    async def _handle_ineffective_answer(
        self, viewer: Principal, row: PendingRow, answer: Answer, objection: Outcome
    ) -> Outcome | None:
        """The outcome of an answer that changes nothing by itself."""
        last = row.rounds[-1]
        # The answer to the inner call ended both: let the inner call say whether this one repeats it.
        if row.open_round is None and isinstance(objection, Failed) and last.inner_call_id is not None:
            return await self._answer_inner_call(viewer, row, last.inner_call_id, answer.for_inner_call(last))
        if isinstance(objection, Pending):  # the same answer was given before
            resumption = self._call_resumer.start_ready_call(row) if row.is_ready else None
            if resumption is not None:
                return await wait_for_task(resumption)
            # The maintenance task may have run the call to its end since the row was read.
            return await self._pending_calls.current_outcome(row.call.call_id, viewer)
        return await self._audit_refusal(viewer, row, answer, objection)

    def _find_objection(self, row: PendingRow, answer: Answer) -> Outcome | None:
        """The outcome of an answer that has no effect; None if it is to be applied."""
        wait = row.open_round
        if wait is not None and wait.inner_run_id is not None and answer.kind not in ("cancel", "expire"):
            problem = (
                f"Call {row.call.call_id} waits for the run {wait.inner_run_id}. Answer the calls of that run instead."
            )
            return Failed("conflict", problem)
        fits = wait is not None and answer.kind in (*_EXPECTED_ANSWERS[wait.waiting_for], "cancel", "expire")
        is_for_open_question = wait is None or wait.inner_call_id is not None or answer.is_for_round(wait.round)
        # An answer without a round is for the open question, even if it equals the answer to an earlier question.
        if not (fits and is_for_open_question) and _repeats_stored_answer(row, answer):
            return self._pending_calls.outcome_of_row(row)
        if wait is not None and not is_for_open_question:
            return Failed("conflict", _wrong_round_message(row, wait, answer))
        if wait is None:
            return _already_answered_failure(row)
        if not self._running.is_open:
            return Failed("unavailable", "The runtime is not running; the call still waits.")
        if wait.is_expired and answer.kind not in ("expire", "cancel"):
            self._expiry_timer.fire()
            return Failed("expired", "No answer arrived in time.")
        if answer.kind == "reject" and row.call.state == "unknown":
            problem = (
                f"It is not known whether {row.call.tool} has happened, so call {row.call.call_id} cannot be rejected. "
                "Find out, and settle it: with its result, or as failed if it has not happened."
            )
            return Failed("conflict", problem)
        if not fits and wait.inner_call_id is None:
            verbs = " or ".join(_EXPECTED_ANSWERS[wait.waiting_for])
            problem = f"Call {row.call.call_id} waits for {wait.waiting_for}: {verbs} it, {answer.kind} does not fit."
            return Failed("conflict", problem)
        return None

    async def _answer_inner_call(
        self, viewer: Principal, row: PendingRow, inner_call_id: str, answer: Answer
    ) -> Outcome:
        """Pass an answer on to the call that this one waits for."""
        outcome = await self._submit(viewer, inner_call_id, answer)
        if isinstance(outcome, Failed) and outcome.code in ("not_found", "conflict", "expired", "invalid_arguments"):
            return outcome
        if not isinstance(outcome, Pending):
            # Calls that wait for the inner one may still be pending.
            await self._call_resumer.following_calls.end_following_calls(inner_call_id)
        in_progress = self._call_resumer.find_in_progress(row.call.call_id)
        if in_progress is not None and in_progress.task is not None:
            # The maintenance task noticed the answer first, and is ending this call.
            await wait_for_task(in_progress.task)
        return await self._pending_calls.current_outcome(row.call.call_id, viewer) or outcome

    async def _audit_refusal(
        self, viewer: Principal, call: PendingRow | str, answer: Answer, outcome: Outcome | None = None
    ) -> Outcome:
        """Write a refused answer to the audit; returns the outcome of the answer."""
        if outcome is None and isinstance(call, PendingRow):
            outcome = _already_answered_failure(call)
        if outcome is not None and outcome.origin is None and isinstance(call, PendingRow):
            attach_origin(outcome, stored_call(call.call))
        store = self._store.current
        refused_codes = ("conflict", "expired", "invalid_arguments", "not_found")
        if not isinstance(outcome, Failed) or outcome.code not in refused_codes:
            assert outcome is not None
            return outcome
        if self._store.is_durable and store is not None:
            if isinstance(call, PendingRow):
                call_id = call.call.call_id
                tool = call.call.tool
                whose = identity_of_stored_call(call.call, self._pending_calls.find_listing(call))
            else:
                call_id = repr(call)[:200]
                tool = ""
                whose = CallIdentity()
            detail = {"answer": answer.kind, "code": outcome.code}
            # The row belongs to the user who answered, whose call it may not be.
            whose = whose._replace(user=viewer.user, session=viewer.session)
            audit_row = store.audit.row_statement("refused", call_id, tool, identity=whose, by=answer.by, detail=detail)
            try:
                await store.write([audit_row])
            except StoreError as error:
                log.warning("The refused answer to call %s could not be written to the audit: %s", call_id, error)
        assert outcome is not None
        return outcome

    async def expire_overdue_calls(self) -> None:
        """End the pending calls whose time is up."""
        store = await self._store.open()
        while expired := await store.pending.find_expired():
            for call_id in expired:
                await self.end_without_answer(Principal(), call_id, "expired", "No answer arrived in time.")
            if expired == await store.pending.find_expired():  # other answers are being applied to them
                break
        self._expiry_timer.schedule(await store.pending.next_expiry())


def _repeats_stored_answer(row: PendingRow, answer: Answer) -> bool:
    """Whether a question that this answer may be for was answered in the same way."""
    answered = [each for each in row.rounds if not each.is_open and answer.is_for_round(each.round)]
    return any(answer.is_same_as(each.answer, each.answer_digest) for each in answered)


def _wrong_round_message(row: PendingRow, pending_round: PendingRound, answer: Answer) -> str:
    if answer.round is not None and answer.round > pending_round.round:
        asked = answer.round + answer.outer_rounds
        opened = pending_round.round + answer.outer_rounds
        return f"There is no question {asked} yet; question {opened} is open."
    return f"Call {row.call.call_id}: the question was answered already; another one is open."


def _already_answered_failure(row: PendingRow) -> Failed:
    """The failure of an answer that came too late."""
    last = row.rounds[-1]
    if row.call.state == "ended" and last.answer == "expire":
        return Failed("expired", "No answer arrived in time.")
    if last.answer == "cancel" and last.waiting_for == "input" and last.answer_value is not None:
        ended = deserialize_outcome(last.answer_value)
        if isinstance(ended, Failed) and ended.code in ("interrupted", "unknown_effect"):  # the provider was lost first
            return ended.evolve(executed=True)
    answered = _PAST_TENSE.get(last.answer or "", "answered otherwise")
    return Failed("conflict", f"Call {row.call.call_id} was {answered} already; the first answer counts.")


def _unknown_call_failure(call_id: str) -> Failed:
    return Failed("not_found", f"No call {call_id[:80]} is waiting.")
