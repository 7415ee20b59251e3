"""Settle: answers to waiting calls are checked and judged here; what counts is acted on in `answer`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from surehand.core.content import to_json
from surehand.core.errors import FailureCode, InvalidArguments
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.strict_json import parse_json
from surehand.runtime.pending.answer import Answer, AnswerKind
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.restored_call import find_listing
from surehand.runtime.pending.resumption import (
    apply_answer,
    claim_ready_call,
    end_following_calls,
    store_failure,
    wait_for_task,
)
from surehand.store.database import StoreError, UnstorableValue, to_storable_name
from surehand.store.serialization import deserialize_outcome, serialize_arguments
from surehand.store.tables.pending import PendingRound, PendingRow

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
_PAST_TENSE = {
    "approve": "approved",
    "reject": "rejected",
    "settle": "settled",
    "cancel": "cancelled",
    "expire": "expired",
}
MAX_ANSWER_ATTEMPTS = 10
_EXPECTED_ANSWERS = {"approval": ("approve", "reject"), "result": ("settle",), "input": ("settle",)}


async def approve(
    scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
) -> Outcome:
    """Yes, perhaps with other arguments; invalid ones leave the wait open."""
    try:
        if isinstance(arguments, (str, bytes)):  # as models write them: what is kept is what they mean
            arguments = parse_json(arguments)
        if (
            arguments is not None
            and (refusal := await _validate_edited_arguments(scope, call_id, arguments)) is not None
        ):
            return refusal
    except InvalidArguments as error:
        return failed_from_error(error).evolve(executed=False)
    except StoreError as error:
        return store_failure(error)
    approval = Approval(True, always, arguments, by=by)
    return await _submit_answer(scope, call_id, Answer("approve", approval=approval, by=by, round=round))


async def _validate_edited_arguments(scope: Scope, call_id: str, arguments: Any) -> Failed | None:
    waits = scope.services.pending_calls
    held = await waits.find(str(call_id), scope.principal)
    while held is not None and held.open_round is not None and held.open_round.inner_call_id is not None:
        held = await waits.find(held.open_round.inner_call_id, scope.principal)  # whose arguments they are
    if held is None:
        return None
    listing = find_listing(scope.services, held)
    if listing is None:
        return Failed("unavailable", f"{held.call.tool} is not here, so edited arguments cannot be checked.")
    try:
        listing.tool.validate_arguments(arguments)
        serialize_arguments(arguments)
    except InvalidArguments as error:
        return failed_from_error(error).evolve(executed=False)
    except UnstorableValue as error:
        return Failed("invalid_arguments", f"{error} The call still waits.")
    return None


async def reject(
    scope: Scope, call_id: str, *, reason: str, by: str | None, code: FailureCode = "rejected", round: int | None = None
) -> Outcome:
    """No; the call ends and its handler never runs."""
    approval = Approval(False, reason=reason, by=by, code=code)
    return await _submit_answer(scope, call_id, Answer("reject", approval=approval, by=by, reason=reason, round=round))


async def settle(scope: Scope, call_id: str, result: Any, *, by: str | None, round: int | None = None) -> Outcome:
    """The answer of a person, a browser or a webhook: a value, a Done or a Failed."""
    value = result if isinstance(result, (Done, Failed)) else Done(result)
    verdict = Answer("settle", value=value, by=by, round=round)
    try:
        if isinstance(value, Done):
            to_json(value.data)
        verdict.validate()
    except Exception as error:  # noqa: BLE001 - a stranger's value: whatever is wrong with it, the call still waits
        return Failed("invalid_arguments", f"The answer cannot be written as JSON: {error}. The call still waits.")
    return await _submit_answer(scope, call_id, verdict)


async def end_without_answer(
    scope: Scope, call_id: str, code: FailureCode, message: str, by: str | None = None
) -> Outcome:
    """End a wait without an answer, or take back an answer that nobody has acted on."""
    answer: AnswerKind = "expire" if code == "expired" else "cancel"
    try:
        held = await scope.services.pending_calls.find(call_id, scope.principal)
    except StoreError as error:
        return store_failure(error)
    if held is None or not (held.open_round or held.is_ready):
        return _unknown_call_failure(call_id)
    if held.call.state == "unknown":  # it may have happened: no word but that of who has found out can end it
        return scope.services.ledger.stored_outcome(held.call)
    return await _submit_answer(scope, call_id, Answer.refusal(held.rounds[-1], answer, code, message, by))


async def _submit_answer(scope: Scope, call_id: str, answer: Answer) -> Outcome:
    if scope.services.is_durable and scope.services.store is None:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if to_storable_name(answer.by) != answer.by:
        return Failed("invalid_arguments", "Nobody has such a name as is given in `by`. The call still waits.")
    for _ in range(
        MAX_ANSWER_ATTEMPTS
    ):  # whoever answers in the same moment may be first: then this one is judged again
        try:
            held = await scope.services.pending_calls.find(str(call_id), scope.principal)
        except StoreError as error:
            return store_failure(error)
        if held is None:
            return await _audit_refusal(scope, str(call_id), answer, _unknown_call_failure(str(call_id)))
        if (outcome := await _answer_row(scope, held, answer)) is not None:
            return outcome
    return Failed("conflict", f"Call {call_id} is answered by others all the time.")


async def _answer_row(scope: Scope, row: PendingRow, answer: Answer) -> Outcome | None:
    """The outcome, or None where somebody else answered in that very moment."""
    if (going := scope.services.pending_calls.answers_in_progress.get(row.call.call_id)) is not None:
        if (
            going.task is not None
            and answer.is_for_round(going.round)
            and answer.is_same_as(going.kind, going.answer_digest)
        ):
            return await wait_for_task(going.task)
        if going.task is not None and going.kind == "expire":
            await wait_for_task(going.task)  # nobody has answered: whoever comes now hears that its time is up
            return None
        return await _audit_refusal(scope, row, answer)
    if row.is_ready and answer.kind in ("cancel", "expire"):
        return await _claim_ready_call(scope, row, answer.for_round(row.rounds[-1]))
    if (judged := _find_objection(scope, row, answer)) is not None:
        return await _handle_ineffective_answer(scope, row, answer, judged)
    assert row.open_round is not None
    if row.open_round.inner_call_id is not None and answer.kind != "expire":
        return await _answer_inner_call(scope, row, row.open_round.inner_call_id, answer.for_inner_call(row.open_round))
    return await apply_answer(scope, row, row.open_round, answer)


async def _handle_ineffective_answer(
    scope: Scope, row: PendingRow, answer: Answer, objection: Outcome
) -> Outcome | None:
    last = row.rounds[-1]
    if (
        row.open_round is None and isinstance(objection, Failed) and last.inner_call_id is not None
    ):  # its answer was that to both
        return await _answer_inner_call(scope, row, last.inner_call_id, answer.for_inner_call(last))
    if row.is_ready and isinstance(objection, Pending):
        return await _claim_ready_call(scope, row) or await _audit_refusal(scope, row, answer, objection)
    return await _audit_refusal(scope, row, answer, objection)


async def _claim_ready_call(scope: Scope, row: PendingRow, ending_answer: Answer | None = None) -> Outcome | None:
    """Take a call, but not by whoever asks: if he hangs up, the call must not be left taken by nobody."""
    try:
        taken = await asyncio.shield(scope.services.reaper.spawn(claim_ready_call(scope, row, ending_answer)))
    except StoreError as error:
        return store_failure(error)
    return await wait_for_task(taken) if taken is not None else None


def _find_objection(scope: Scope, row: PendingRow, answer: Answer) -> Outcome | None:
    """Why an answer changes nothing, or None where it counts."""
    wait, waits = row.open_round, scope.services.pending_calls
    fits = wait is not None and answer.kind in (*_EXPECTED_ANSWERS[wait.waiting_for], "cancel", "expire")
    if wait is not None and wait.inner_call_id is None and not answer.is_for_round(wait.round):
        return Failed("conflict", _wrong_round_message(row, wait, answer))
    # Where another question has been asked since, an answer that does not say to which it is, is to that one, even if
    # both answers are the same.
    closed = [round for round in row.rounds if not round.is_open and answer.is_for_round(round.round)]
    if not fits and any(answer.is_same_as(round.answer, round.answer_digest) for round in closed):
        return waits.outcome_of_row(row)
    if wait is None:
        return _already_answered_failure(row)
    if not scope.services.is_open:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if wait.is_expired and answer.kind not in ("expire", "cancel"):
        scope.services.expire_overdue_calls()
        return Failed("expired", "nobody answered in time.")
    if not fits and wait.inner_call_id is None:
        verbs = " or ".join(_EXPECTED_ANSWERS[wait.waiting_for])
        problem = f"Call {row.call.call_id} waits for {wait.waiting_for}: {verbs} it, {answer.kind} does not fit."
        return Failed("conflict", problem)
    return None


def _wrong_round_message(row: PendingRow, pending_round: PendingRound, answer: Answer) -> str:
    if answer.round is not None and answer.round > pending_round.round:
        asked, open_ = (number + answer.outer_rounds for number in (answer.round, pending_round.round))
        return f"There is no question {asked} yet; question {open_} is open."
    return f"Call {row.call.call_id}: the question was answered already; another one is open."


async def _answer_inner_call(scope: Scope, row: PendingRow, inner_call_id: str, answer: Answer) -> Outcome:
    """The call waits for another one: the answer is meant for that."""
    outcome = await _submit_answer(scope, inner_call_id, answer)
    if isinstance(outcome, Failed) and outcome.code in ("not_found", "conflict", "expired", "invalid_arguments"):
        return outcome
    if not isinstance(outcome, Pending):
        await end_following_calls(scope, inner_call_id)  # who waits for it may not have been told yet
    if (
        going := scope.services.pending_calls.answers_in_progress.get(row.call.call_id)
    ) is not None and going.task is not None:
        await wait_for_task(going.task)  # this runtime's own keeper has noticed the answer, and ends the call just now
    return await scope.services.pending_calls.current_outcome(row.call.call_id, scope.principal) or outcome


async def _audit_refusal(
    scope: Scope, call: PendingRow | str, answer: Answer, outcome: Outcome | None = None
) -> Outcome:
    """Every try is in the audit, also one that came to nothing."""
    outcome = _already_answered_failure(call) if outcome is None and isinstance(call, PendingRow) else outcome
    store, refused = scope.services.store, ("conflict", "expired", "not_found")
    if scope.services.is_durable and store is not None and isinstance(outcome, Failed) and outcome.code in refused:
        call_id, tool = (call.call.call_id, call.call.tool) if isinstance(call, PendingRow) else (repr(call)[:200], "")
        detail = {"answer": answer.kind, "code": outcome.code}
        who = scope.principal.user
        row = store.audit.row_statement("refused", call_id, tool, user=who, by=answer.by, detail=detail)
        try:
            await store.write([row])
        except StoreError as error:
            log.warning("An answer to call %s was refused, and the audit does not know: %s", call_id, error)
    assert outcome is not None
    return outcome


def _already_answered_failure(row: PendingRow) -> Failed:
    last = row.rounds[-1]
    if row.call.state == "ended" and last.answer == "expire":
        return Failed("expired", "nobody answered in time.")
    if last.answer == "cancel" and last.waiting_for == "input" and last.answer_value is not None:
        told = deserialize_outcome(last.answer_value)
        if isinstance(told, Failed) and told.code in ("interrupted", "unknown_effect"):  # the other side left first
            return told.evolve(executed=True)
    answer = _PAST_TENSE.get(last.answer or "", "answered otherwise")
    return Failed("conflict", f"Call {row.call.call_id} was {answer} already; the first answer counts.")


def _unknown_call_failure(call_id: str) -> Failed:
    return Failed("not_found", f"No call {call_id[:80]} is waiting.")
