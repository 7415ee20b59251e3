"""Call resumer: applies an answer to a pending call, by running the call through the pipeline again under the same id.

An answer that ends the call is stored in one transaction with the outcome. An answer that lets the call continue is
stored first; then one runtime claims the call and runs it, this one before any other.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeAlias, TypeVar, cast

from surehand.catalogue.listing import Listing
from surehand.core.call import Call, Principal
from surehand.core.events import CallResumed, CallSettled
from surehand.core.outcome import Done, Failed, Outcome, Pending, WaitingFor, may_have_executed
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.durability.call_record import StoredOutcomes, identity_of_stored_call
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.listeners import Listeners
from surehand.runtime.pending.answer import Answer, AnswerInProgress
from surehand.runtime.pending.following_calls import FollowingCalls
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.pending.pending_call import absent_agent_message
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.restored_call import AppliedAnswer, RestoredCalls, apply_answer_to
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, StoreError, StoreUnavailable, UnexpectedRowCount, UnstorableValue
from surehand.store.tables import ledger as ledger_table
from surehand.store.tables.pending import PendingRound, PendingRow, RoundAnswer

T = TypeVar("T")
ResumptionWork: TypeAlias = Callable[[], Coroutine[object, object, Outcome]]
"""Starts the work of a resumption. Not a coroutine: a task that is cancelled before it starts would never await it."""
log = logging.getLogger("surehand")
ANNOUNCE_STATEMENT = Statement("{announce}")


class CallResumer:
    """Applies answers, and runs the calls that they let continue."""

    def __init__(
        self,
        store: RuntimeStore,
        pending_calls: PendingCalls,
        local: LocalPendingCalls,
        restored_calls: RestoredCalls,
        *,
        ledger: Ledger,
        outcomes: StoredOutcomes,
        write_retry: WriteRetry,
        running: RunningCalls,
        background_tasks: BackgroundTasks,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._pending_calls = pending_calls
        self._local = local
        self._restored_calls = restored_calls
        self._ledger = ledger
        self._outcomes = outcomes
        self._write_retry = write_retry
        self._running = running
        self._background_tasks = background_tasks
        self._listeners = listeners
        self.following_calls = FollowingCalls(store, local, outcomes, self.apply_answer)

    async def apply_answer(
        self, row: PendingRow, pending_round: PendingRound, answer: Answer, viewer: Principal
    ) -> Outcome | None:
        """Apply an answer and return the call's outcome; None if another answer was stored first."""
        in_progress = AnswerInProgress(answer.kind, answer.answer_digest(), pending_round.round)
        work = partial(self._resume_or_end, row, pending_round, answer, viewer, in_progress)
        return await wait_for_task(self._start(row, in_progress, work))

    def find_in_progress(self, call_id: str) -> AnswerInProgress | None:
        """The answer that this process is applying to a call now."""
        return self._local.answers_in_progress.get(call_id)

    async def resume_ready_call(self, row: PendingRow, ending_answer: Answer | None = None) -> Outcome | None:
        """Claim and resume an answered call, and wait for its outcome; None if another runtime was first."""
        resumption = self.start_ready_call(row, ending_answer)
        return await wait_for_task(resumption) if resumption is not None else None

    def start_ready_call(
        self, row: PendingRow, ending_answer: Answer | None = None
    ) -> asyncio.Task[Outcome | None] | None:
        """Start to resume a call that was answered in another process or before a restart, if its tool is here.

        The task claims the call first, and returns None if another runtime has. The same answer, given again
        meanwhile, finds the task and waits for it.

        Args:
            ending_answer: end the call with this answer instead, whether its tool is here or not.
        """
        last = row.rounds[-1]
        listing = self._restored_calls.find_listing(row)
        resumes_here = listing is not None and _can_resume_here(listing, row)
        if ending_answer is None and not row.matches_answer_binding:
            ending_answer = _end_altered_call(row, last, Answer.from_round(last))
        is_started = row.call.call_id in self._local.answers_in_progress
        if is_started or not self._running.is_open or not (resumes_here or ending_answer):
            return None
        answer = ending_answer or Answer.from_round(last)
        in_progress = AnswerInProgress(last.answer or "", last.answer_digest or "", last.round)
        work = partial(self._claim_and_resume, row, answer, to_end=ending_answer is not None)
        return self._start(row, in_progress, work)

    async def _claim_and_resume(self, row: PendingRow, answer: Answer, *, to_end: bool) -> Outcome:
        fence = await self._claim(row, to_end=to_end)
        return await self._resume_from_store(row, AppliedAnswer(answer, fence=fence))

    async def _claim(self, row: PendingRow, *, to_end: bool) -> int:
        """Claim an answered call in the ledger; returns the fence."""
        call = row.call
        store = await self._store.open()
        await self._retry_unwritten(call.call_id)
        try:
            [claimed] = await store.write([ledger_table.take_statement(call, self._store.owner_id, to_end=to_end)])
        except StoreUnavailable:
            # The claim may have been committed: then no runtime resumes the call until the claim is returned.
            give_back = ledger_table.return_to_ready_statement(call.call_id, self._store.owner_id, call.fence + 1)
            self._write_retry.retry_later(call.call_id, [give_back])
            raise
        if not claimed:
            raise UnexpectedRowCount("another runtime has claimed the call")
        fence: int = claimed[0]["fence"]
        return fence

    async def _retry_unwritten(self, call_id: str) -> None:
        """Finish the writes of an earlier attempt: later, they would return the new claim too."""
        write_retry = self._write_retry
        if call_id in write_retry:
            await write_retry.retry_call(await self._store.open(), call_id)

    def _start(
        self, row: PendingRow, in_progress: AnswerInProgress, work: ResumptionWork
    ) -> asyncio.Task[Outcome | None]:
        """Run the resumption in a task of the runtime: it continues when the task that answered is cancelled."""
        self._local.answers_in_progress[row.call.call_id] = in_progress
        in_progress.task = self._background_tasks.spawn(self._run(row.call.call_id, in_progress, work))
        return in_progress.task

    async def _run(self, call_id: str, in_progress: AnswerInProgress, work: ResumptionWork) -> Outcome | None:
        """Run a resumption to its end, then end the calls that wait for this one."""
        answers_in_progress = self._local.answers_in_progress
        try:
            outcome = await work()
        except UnexpectedRowCount:
            return None
        except StoreError as error:
            return store_failure(error)
        finally:
            if answers_in_progress.get(call_id) is in_progress:
                del answers_in_progress[call_id]
        try:
            if await self._pending_calls.find_followers(call_id):
                await self.following_calls.end_following_calls(call_id, outcome)
        except StoreError as error:  # the answer is stored; maintenance finds the following calls in its next round
            log.warning("The calls that wait for call %s are ended later: %s", call_id, error)
        return outcome

    async def _resume_or_end(
        self,
        row: PendingRow,
        pending_round: PendingRound,
        answer: Answer,
        viewer: Principal,
        in_progress: AnswerInProgress,
    ) -> Outcome:
        """Store the answer, and run the call to its end or to its next question."""
        listing = self._restored_calls.find_listing(row)
        answer, continues = _check_row(row, pending_round, answer, listing)
        edited = answer.apply_edited_arguments(row)
        round_answer = answer.to_round_answer(edited, pending_round, viewer)
        emit_settled = partial(self._emit_settled, row, pending_round, answer)
        if not continues:
            in_progress.on_recorded = emit_settled
            outcome = await self._deliver_answer(row, AppliedAnswer(answer, round_answer))
            if pending_round.waiting_for == "input" and listing is not None:
                await _cancel_input_request(listing, row.call.call_id, answer.kind)
            return outcome
        resumes_here = listing is not None and _can_resume_here(listing, row)
        fence = await self._commit(edited, answer, round_answer, resumes_here=resumes_here)
        emit_settled()
        if fence is None:
            done = "Approved" if answer.kind == "approve" else "Answered"
            agent = self._restored_calls.missing_agent(row)
            tool = row.call.tool
            absent = f"{tool} is not here now." if agent is None else absent_agent_message(tool, agent)
            return Pending("result", row.call.call_id, f"{done}, but {absent}")
        return await self._deliver_answer(edited, AppliedAnswer(answer, fence=fence))

    async def _commit(
        self, row: PendingRow, answer: Answer, round_answer: RoundAnswer, *, resumes_here: bool
    ) -> int | None:
        """Store that the call may continue; returns the fence if it continues in this process."""
        call = row.call
        store = await self._store.open()
        await self._retry_unwritten(call.call_id)
        statements = [
            round_answer.statement(),
            ledger_table.resume_statement(call.call_id, self._store.owner_id if resumes_here else None, call.arguments),
        ]
        if self._store.is_durable:
            detail = {
                "answer": answer.kind,
                "answer_digest": round_answer.answer_digest,
                "round": round_answer.round,
            }
            whose = identity_of_stored_call(call, self._pending_calls.find_listing(row))
            statements += [
                store.audit.row_statement(
                    "answer", call.call_id, call.tool, identity=whose, by=answer.by, detail=detail
                ),
                store.journal.entry_statement("settled", call.call_id, call.tool, answer.kind, identity=whose),
            ]
            if (run := json.loads(call.context).get("turn")) is not None:
                statements += store.streams.call_event_statements(
                    run, "settled", call.call_id, call.tool, answer.kind, 0.0
                )
        if not resumes_here:
            statements.append(ANNOUNCE_STATEMENT)
        try:
            results = await store.write(statements)
        except StoreUnavailable:
            if resumes_here:
                # The claim may have been committed: then no runtime resumes the call until the claim is returned.
                give_back = ledger_table.return_to_ready_statement(call.call_id, self._store.owner_id, call.fence + 1)
                self._write_retry.retry_later(call.call_id, [give_back])
            raise
        return results[1][0]["fence"] if resumes_here else None

    async def _deliver_answer(self, row: PendingRow, applied: AppliedAnswer) -> Outcome:
        """Give the answer to the caller if it still waits here, else run the call again from the store."""
        return await self._deliver_to_waiting_caller(row, applied) or await self._resume_from_store(row, applied)

    async def _deliver_to_waiting_caller(self, row: PendingRow, applied: AppliedAnswer) -> Outcome | None:
        """Let the waiting caller continue with the answer; None if there is none, or it was cancelled just now."""
        local = self._local
        call_id = row.call.call_id
        caller = local.waiting_callers.get(call_id)
        invocation = local.invocations.get(call_id)
        if caller is None or caller.done() or invocation is None:
            return None
        ended = self._running.ends.wait_for_resumed(invocation)
        apply_answer_to(invocation, row, applied)
        caller.set_result(True)
        outcome = await ended
        if invocation.claim.is_lost:
            raise UnexpectedRowCount("another answer was stored first")
        if not (isinstance(outcome, Failed) and outcome.code == "cancelled"):
            return outcome
        # The caller was cancelled while it continued. A recorded outcome counts; without one, the answer still counts.
        call = await self._outcomes.find(call_id)
        return self._outcomes.outcome_of(call) if call is not None and call.state == "ended" else None

    async def _resume_from_store(self, row: PendingRow, applied: AppliedAnswer) -> Outcome:
        """Run the call again, with its stored arguments and the answer."""
        invocation, stack = self._restored_calls.restore_resumed_call(row, applied)
        if self._running.is_closed():  # during the awaits above; leaving the store returns the claim
            raise StoreUnavailable("The runtime is not running.")
        outcome = await stack(invocation)
        if invocation.claim.is_lost and applied.round_answer is not None:
            raise UnexpectedRowCount("another answer was stored first")
        if isinstance(outcome, Pending) or invocation.claim.is_recorded:
            return outcome
        if (
            applied.fence is not None
            and invocation.execution.ended_by == "store failure"
            and self._return_claim_for_later(invocation)
        ):
            return Pending(
                "result", row.call.call_id, f"{row.call.tool} goes on when the store is back: {outcome.text}"
            )
        if invocation.resumption.note and isinstance(outcome, Failed) and outcome.code == "invalid_arguments":
            # No question: an approval of these arguments could not work either.
            problem = f"{invocation.resumption.note} It does not take these arguments any more. Call it again."
            outcome = Failed("conflict", problem, data=outcome.data)
        if applied.fence is not None and self._running.is_closed() and not may_have_executed(outcome):
            return Pending("result", row.call.call_id, f"{row.call.tool} was let run, and goes on where it is again.")
        return await self._ledger.record_outcome(invocation, outcome)

    def _return_claim_for_later(self, invocation: Invocation) -> bool:
        """Return the claim, so that the call goes on when the store is back; False if it has run already."""
        if invocation.id in self._write_retry:  # the claim is returned, or the next wait is written, when it is back
            return True
        if invocation.may_have_executed:
            return False
        self._ledger.return_to_ready_later(invocation)
        return True

    def _emit_settled(
        self,
        row: PendingRow,
        pending_round: PendingRound,
        answer: Answer,
        ended_invocation: Invocation | None = None,
    ) -> None:
        """Emit the events of an answer after it was stored; a refused answer emits none."""
        if not self._listeners.callbacks:
            return
        call = row.call
        listing = ended_invocation.listing if ended_invocation is not None else self._pending_calls.find_listing(row)
        identity = identity_of_stored_call(call, listing)
        event = CallSettled(
            call.call_id,
            call.tool,
            answer.kind,
            cast(WaitingFor, pending_round.waiting_for),
            answer.by,
            bool(answer.approval and answer.approval.always),
            answer.reason,
            self._running.clock.time(),
            *identity,
        )
        self._listeners.emit(event)
        if ended_invocation is not None and ended_invocation.is_resumed:
            self._listeners.emit(CallResumed(call.call_id, call.tool, self._running.clock.time(), *identity))


def _end_altered_call(row: PendingRow, pending_round: PendingRound, answer: Answer) -> Answer:
    """The same answer with the effect that it ends the call: the audit says what the person has answered."""
    call = row.call
    problem = f"call {call.call_id} is not what was asked about any more. Call {call.tool} again, under a new id."
    return Answer.refusal(pending_round, answer.kind, "conflict", problem, answer.by)


async def wait_for_task(task: asyncio.Task[T]) -> T | Failed:
    """Wait for a resumption without cancelling it when the waiting task is cancelled."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        return Failed("cancelled", "The runtime closed before the call ended.", executed=True)


async def _cancel_input_request(listing: Listing, call_id: str, reason: str) -> None:
    """Tell the provider that its request for input gets no answer."""
    cancellable = listing.abilities.cancellable
    if cancellable is None:
        return
    try:
        await cancellable.cancel(Call(listing.tool.provider_name, id=call_id), reason)
    except Exception:
        log.exception("Provider %s raised when its request for input was cancelled", listing.namespace)


def _can_resume_here(listing: Listing, row: PendingRow) -> bool:
    """Whether this process can resume the call: some providers resume only where they asked for input.

    A provider that lost its request can still report that failure, from any process.
    """
    connection_bound = listing.abilities.connection_bound
    last = row.rounds[-1]
    if connection_bound is None or last.waiting_for != "input" or last.inner_call_id is not None:
        return True
    state = row.provider_state
    return connection_bound.can_resume_here(state) or connection_bound.resume_failure(state) is not None


def _check_row(
    row: PendingRow, pending_round: PendingRound, answer: Answer, listing: Listing | None
) -> tuple[Answer, bool]:
    """The answer to apply, and whether the call continues with it; one that ends the call if its row was altered."""
    # A provider that asked for input continues with it; for any other question the answer is the outcome.
    is_input = pending_round.waiting_for == "input" and pending_round.inner_call_id is None
    resumes = is_input and isinstance(answer.value, Done) and (listing is None or listing.provider is not None)
    if answer.kind != "approve" and not resumes:
        return answer, False
    if not row.matches_answer_binding:
        return _end_altered_call(row, pending_round, answer), False
    return answer, True


def store_failure(error: StoreError) -> Failed:
    """The outcome of an answer that could not be stored, or whose outcome could not be read."""
    if isinstance(error, UnstorableValue):
        return Failed("invalid_arguments", f"the answer cannot be stored, and the call still waits: {error}")
    return Failed("unavailable", f"the store failed while the call was answered; give the same answer again: {error}")
