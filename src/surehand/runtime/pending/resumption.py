"""Answer: acting on an answer that counts. It takes the call through the pipeline again, under the same id.

An answer that ends the call is written together with the outcome that it leads to. One that lets the call go on is
written first; then whoever claims the call runs it, this runtime before any other.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from surehand.core.call import Call
from surehand.core.errors import FailureCode
from surehand.core.events import CallResumed, CallSettled
from surehand.core.outcome import Done, Failed, Outcome, Pending, WaitingFor, may_have_executed
from surehand.runtime.pending.answer import Answer, AnswerInProgress
from surehand.runtime.pending.restored_call import Resumption, apply_resumption, find_listing, restore_invocation
from surehand.store.database import Statement, StoreError, StoreUnavailable, UnexpectedRowCount, UnstorableValue
from surehand.store.serialization import deserialize_outcome
from surehand.store.tables import ledger as rows
from surehand.store.tables.pending import PendingRound, PendingRow, RoundAnswer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from surehand.catalogue.listing import Listing
    from surehand.core.provider import Provider
    from surehand.runtime.pipeline.invocation import Invocation
    from surehand.runtime.scope import Scope

T = TypeVar("T")
log = logging.getLogger("surehand")
ANNOUNCE_STATEMENT = Statement("{announce}")


async def apply_answer(scope: Scope, row: PendingRow, pending_round: PendingRound, answer: Answer) -> Outcome | None:
    """Act on an answer; None if somebody else answered first."""
    going = AnswerInProgress(answer.kind, answer.answer_digest(), pending_round.round)
    return await wait_for_task(_start_resumption(scope, row, going, _resume_or_end(scope, row, pending_round, answer)))


async def claim_ready_call(
    scope: Scope, row: PendingRow, ending_answer: Answer | None = None
) -> asyncio.Task[Outcome | None] | None:
    """Claim a call that was answered elsewhere, or before a restart, and go on with it where its tool is here.

    Args:
        ending: end it instead, wherever its tool is.
    """
    parts, call, last = scope.services, row.call, row.rounds[-1]
    listing = find_listing(parts, row)
    here = listing is not None and listing.tool.definition_digest == call.definition and _can_resume_here(listing, row)
    if ending_answer is None and not row.matches_binding:
        ending_answer = _reject_altered_call(row, last)
    if not parts.is_open or not (here or ending_answer):
        return None
    verdict = ending_answer or Answer.from_round(last)
    fence = await _claim_for_resumption(scope, row, to_end=ending_answer is not None)
    if fence is None:
        return None
    turn = Resumption(verdict, fence=fence)
    going = AnswerInProgress(last.answer or "", last.answer_digest or "", last.round)
    return _start_resumption(scope, row, going, _resume_from_store(scope, row, turn))


async def _claim_for_resumption(scope: Scope, row: PendingRow, *, to_end: bool) -> int | None:
    parts, call = scope.services, row.call
    store = await parts.open_store()
    await _retry_unwritten(scope, call.call_id)
    try:
        [found] = await store.write([rows.take_statement(call, parts.owner_id, to_end=to_end)])
    except StoreUnavailable:  # it may have been kept: then nobody goes on with it until it is put back
        parts.ledger.write_retry.retry_later(
            call.call_id, [rows.return_to_ready_statement(call.call_id, parts.owner_id, call.fence + 1)]
        )
        raise
    return found[0]["fence"] if found else None


async def _retry_unwritten(scope: Scope, call_id: str) -> None:
    """What is left of a try that failed would put this one back, too."""
    unwritten = scope.services.ledger.write_retry
    if call_id in unwritten:
        await unwritten.retry_call(await scope.services.open_store(), call_id)


def _reject_altered_call(row: PendingRow, pending_round: PendingRound, by: str | None = None) -> Answer:
    problem = (
        f"call {row.call.call_id} is not what was asked about any more. Call {row.call.tool} again, under a new id."
    )
    return Answer.refusal(pending_round, "reject", "conflict", problem, by)


async def wait_for_task(task: asyncio.Task[T]) -> T | Failed:
    """What came of it; whoever asks may hang up, and it goes on."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        return Failed("cancelled", "The runtime closed before the call ended.", executed=True)


def _start_resumption(
    scope: Scope, row: PendingRow, in_progress: AnswerInProgress, coroutine: Coroutine[object, object, Outcome]
) -> asyncio.Task[Outcome | None]:
    """The runtime owns what follows: it goes on when the one who answered hangs up."""
    scope.services.pending_calls.answers_in_progress[row.call.call_id] = in_progress
    in_progress.task = scope.services.reaper.spawn(_run_resumption(scope, row.call.call_id, in_progress, coroutine))
    return in_progress.task


async def _run_resumption(
    scope: Scope, call_id: str, in_progress: AnswerInProgress, coroutine: Coroutine[object, object, Outcome]
) -> Outcome | None:
    going_on = scope.services.pending_calls.answers_in_progress
    try:
        outcome = await coroutine
    except UnexpectedRowCount:
        return None
    except StoreError as error:
        return store_failure(error)
    finally:
        if going_on.get(call_id) is in_progress:
            del going_on[call_id]
    try:
        await end_following_calls(scope, call_id, outcome)
    except StoreError as error:  # what was answered is answered; they are found at the next beat at the latest
        log.warning("Calls that wait for call %s are told later: %s", call_id, error)
    return outcome


async def _resume_or_end(scope: Scope, row: PendingRow, pending_round: PendingRound, answer: Answer) -> Outcome:
    listing = find_listing(scope.services, row)
    answer, goes_on = _check_binding(row, pending_round, answer, listing)
    edited = answer.apply_edited_arguments(row)
    answered, tell = (
        answer.to_round_answer(edited, pending_round, scope.principal),
        partial(_emit_settled, scope, row, pending_round, answer),
    )
    if not goes_on:
        outcome = await _deliver_answer(scope, row, Resumption(answer, answered, on_settled=tell))
        if pending_round.waiting_for == "input" and listing is not None and listing.provider is not None:
            await _cancel_input_request(listing.provider, Call(listing.tool.name, id=row.call.call_id), answer.kind)
        return outcome
    here = listing is not None and _can_resume_here(listing, row)
    fence = await _commit_resumption(scope, edited, answer, answered, resumes_here=here)
    tell()
    if fence is None:
        said = "Approved" if answer.kind == "approve" else "RoundAnswer"
        return Pending("result", row.call.call_id, f"{said}, but {row.call.tool} is not here now.")
    return await _deliver_answer(scope, edited, Resumption(answer, fence=fence))


async def _cancel_input_request(provider: Provider, call: Call, reason: str) -> None:
    """Whoever asked for input need not wait for it any longer."""
    try:
        await provider.cancel(call, reason)
    except Exception:
        log.exception("%s could not be told that nobody answers", provider.namespace)


def _can_resume_here(listing: Listing, row: PendingRow) -> bool:
    """Some providers can go on only where they asked; unless nobody is left there, and that is all there is to say."""
    if listing.provider is None or row.rounds[-1].waiting_for != "input" or row.rounds[-1].inner_call_id is not None:
        return True
    return (
        listing.provider.can_resume_here(row.provider_state)
        or listing.provider.resume_failure(row.provider_state) is not None
    )


def _check_binding(
    row: PendingRow, pending_round: PendingRound, answer: Answer, listing: Listing | None
) -> tuple[Answer, bool]:
    """The answer, and whether the call goes on with it; a no where the call is not what was asked about any more."""
    # A provider that asked for input goes on with it; to any other wait the answer is the outcome.
    asked = pending_round.waiting_for == "input" and pending_round.inner_call_id is None
    resumes = asked and isinstance(answer.value, Done) and (listing is None or listing.provider is not None)
    if answer.kind != "approve" and not resumes:
        return answer, False
    if not row.matches_binding:
        return _reject_altered_call(row, pending_round, answer.by), False
    if answer.kind == "approve" and listing is not None and listing.tool.definition_digest != row.call.definition:
        changed = f"{row.call.tool} has changed since it was asked about. Call it again, under a new id."
        return Answer.refusal(pending_round, "reject", "conflict", changed, answer.by), False
    return answer, True


async def _commit_resumption(
    scope: Scope, row: PendingRow, answer: Answer, round_answer: RoundAnswer, *, resumes_here: bool
) -> int | None:
    """Write that the call may go on; the fence under which it goes on here, if it can."""
    parts, call = scope.services, row.call
    store = await parts.open_store()
    await _retry_unwritten(scope, call.call_id)
    steps = [
        round_answer.statement(),
        rows.resume_statement(call.call_id, parts.owner_id if resumes_here else None, call.arguments),
    ]
    if parts.is_durable:
        detail, user = {"answer": answer.kind, "weight": round_answer.answer_digest}, call.user_id
        steps.append(
            store.audit.row_statement("answer", call.call_id, call.tool, user=user, by=answer.by, detail=detail)
        )
        steps.append(store.journal.entry_statement("settled", call.call_id, call.tool, answer.kind, user=user))
        if (run := json.loads(call.context).get("turn")) is not None:
            steps += store.streams.call_event_statements(run, "settled", call.call_id, call.tool, answer.kind, 0.0)
    if not resumes_here:
        steps.append(ANNOUNCE_STATEMENT)
    try:
        results = await store.write(steps)
    except StoreUnavailable:
        if resumes_here:  # it may have been kept: then nobody goes on with it until it is put back
            parts.ledger.write_retry.retry_later(
                call.call_id, [rows.return_to_ready_statement(call.call_id, parts.owner_id, call.fence + 1)]
            )
        raise
    return results[1][0]["fence"] if resumes_here else None


async def _deliver_answer(scope: Scope, row: PendingRow, resumption: Resumption) -> Outcome:
    """To a caller who waits for the answer and goes on with it itself, or else to the same call once more."""
    return await _deliver_to_waiting_caller(scope, row, resumption) or await _resume_from_store(scope, row, resumption)


async def _deliver_to_waiting_caller(scope: Scope, row: PendingRow, resumption: Resumption) -> Outcome | None:
    """None if there is none, or it left just then."""
    waits, call_id = scope.services.pending_calls, row.call.call_id
    live, invocation = waits.waiting_callers.get(call_id), waits.invocations.get(call_id)
    if live is None or live.done() or invocation is None:
        return None
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    invocation.on_end = partial(_set_outcome, ended)
    apply_resumption(invocation, row, resumption)
    live.set_result(True)
    outcome = await ended
    if invocation.has_lost_race:
        raise UnexpectedRowCount("somebody else was first")
    if not (isinstance(outcome, Failed) and outcome.code == "cancelled"):
        return outcome
    # It left while it went on. What counts is what was written; if nothing was, the answer counts all the same.
    found = await scope.services.ledger.find(call_id)
    return scope.services.ledger.stored_outcome(found) if found is not None and found.state == "ended" else None


def _set_outcome(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


async def _resume_from_store(scope: Scope, row: PendingRow, resumption: Resumption) -> Outcome:
    """The same call once more, from its stored arguments."""
    parts = scope.services
    again, stack = restore_invocation(parts, row)
    apply_resumption(again, row, resumption)
    if parts.is_closed():  # meanwhile; what was claimed is given back when it leaves the store
        raise StoreUnavailable("The runtime is not running.")
    outcome = await stack(again)
    if again.has_lost_race and resumption.round_answer is not None:
        raise UnexpectedRowCount("somebody else was first")
    if isinstance(outcome, Pending) or again.is_outcome_recorded:
        return outcome
    if resumption.fence is not None and parts.is_closed() and not may_have_executed(outcome):
        return Pending("result", row.call.call_id, f"{row.call.tool} was let run, and goes on where it is again.")
    return await parts.ledger.record_outcome(again, outcome)


async def end_following_calls(scope: Scope, call_id: str, outcome: Outcome | None = None) -> None:
    """Calls that wait for this one end as it does."""
    parts = scope.services
    store = await parts.open_store()
    followers = await store.pending.find_followers(call_id)
    found = await parts.ledger.find(call_id) if followers else None
    if found is None or found.outcome is None:
        return
    told = deserialize_outcome(found.outcome) if outcome is None or isinstance(outcome, Pending) else outcome.evolve()
    for follower in followers:
        outer = await store.pending.find(follower)
        if (
            outer is not None
            and outer.open_round is not None
            and follower not in parts.pending_calls.answers_in_progress
        ):
            await apply_answer(parts.root_scope, outer, outer.open_round, Answer("settle", value=told))


def store_failure(error: StoreError) -> Failed:
    """What whoever answered is told."""
    code: FailureCode = "invalid_arguments" if isinstance(error, UnstorableValue) else "unavailable"
    return Failed(code, f"the answer could not be written down, and the call still waits: {error}")


def _emit_settled(
    scope: Scope,
    row: PendingRow,
    pending_round: PendingRound,
    answer: Answer,
    ended_invocation: Invocation | None = None,
) -> None:
    """Only of what is written: an answer that came second is no news."""
    parts = scope.services
    if parts.listeners.callbacks:
        call, always = row.call, bool(answer.approval and answer.approval.always)
        parts.listeners.emit(
            CallSettled(
                call.call_id, call.tool, answer.kind, cast(WaitingFor, pending_round.waiting_for), answer.by, always,
                answer.reason, parts.clock.time(),
            )
        )  # fmt: skip
        if ended_invocation is not None and ended_invocation.is_resumed:
            parts.listeners.emit(CallResumed(call.call_id, call.tool, parts.clock.time()))
