"""Routes of pending calls: which wait, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body
from starlette.responses import Response

from surehand.core.outcome import Failed, Outcome
from surehand.gateway.access.answers import WaitingCallFields
from surehand.gateway.access.identity import Identity
from surehand.gateway.api.calls import CallId, find_call
from surehand.gateway.api.models import CALL_RESPONSES, ApproveBody, PendingInfo, PendingPage, RejectBody, ResultBody
from surehand.gateway.api.requests import (
    Caller,
    Cursor,
    Limit,
    SessionFilter,
    json_response,
    outcome_response,
    page_response,
    raise_if_refused,
)
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.status import CallStatus
from surehand.runtime.scope import Scope
from surehand.store.tables.pending import PendingRound

ROWS_PER_READ = 200
REFUSALS = ("not_found", "conflict", "expired", "invalid_arguments", "unavailable")


def pending_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/pending`."""
    router = APIRouter(tags=["pending"], route_class=StrictRoute)

    @router.get("/api/pending", responses={200: {"model": PendingPage}})
    async def list_pending(
        identity: Caller, limit: Limit = 100, cursor: Cursor = None, session: SessionFilter = None
    ) -> Response:
        """List the calls that wait and that the caller may see or answer, oldest first."""
        page = await _visible_page(gateway, identity, limit + 1, cursor, session)
        next_cursor = page[limit - 1].cursor if len(page) > limit else None
        return page_response([_describe(gateway, identity, each) for each in page[:limit]], next_cursor)

    @router.get("/api/pending/{call_id}", responses={200: {"model": PendingInfo}})
    async def show_pending(identity: Caller, call_id: CallId) -> Response:
        """Show the open question of a call."""
        return json_response(_describe(gateway, identity, await _require_pending_call(gateway, identity, call_id)))

    @router.post("/api/pending/{call_id}/approve", responses=CALL_RESPONSES)
    async def approve(
        identity: Caller, call_id: CallId, body: Annotated[ApproveBody | None, Body()] = None
    ) -> Response:
        """Let a call run, optionally with edited arguments."""
        approval = body or ApproveBody(always=False, round=None)
        permission = await require_may_answer(gateway, identity, call_id, "approve", approval.round)
        outcome = await permission.scope.approve(
            call_id, always=approval.always, arguments=approval.arguments, by=identity.user, round=permission.round
        )
        return answered_call_response(outcome, call_id)

    @router.post("/api/pending/{call_id}/reject", responses=CALL_RESPONSES)
    async def reject(identity: Caller, call_id: CallId, body: Annotated[RejectBody | None, Body()] = None) -> Response:
        """End a call without running it."""
        rejection = body or RejectBody(reason="", round=None)
        permission = await require_may_answer(gateway, identity, call_id, "reject", rejection.round)
        outcome = await permission.scope.reject(call_id, rejection.reason, by=identity.user, round=permission.round)
        return answered_call_response(outcome, call_id)

    @router.post("/api/pending/{call_id}/result", responses=CALL_RESPONSES)
    async def settle(identity: Caller, call_id: CallId, body: ResultBody) -> Response:
        """Answer a call with its result, or say why it failed."""
        permission = await require_may_answer(gateway, identity, call_id, "settle", body.round)
        result = body.result if body.failed is None else Failed("failed", body.failed)
        outcome = await permission.scope.settle(call_id, result, by=identity.user, round=permission.round)
        return answered_call_response(outcome, call_id)

    return router


async def _visible_page(
    gateway: Gateway, identity: Identity, limit: int, cursor: str | None, session: str | None
) -> list[PendingCall]:
    """Calls that wait and that the identity may see; of others only those that it may answer."""
    sees_others = identity.sees_all_calls or gateway.answers.has_other_answerers
    scope = gateway.runtime if sees_others else gateway.scope(identity)
    scope = scope if session is None else scope.scope(session=session)
    found: list[PendingCall] = []
    try:
        while len(found) < limit:
            rows = await scope.pending(limit=ROWS_PER_READ, after=cursor)
            found += [each for each in rows if gateway.answers.may_see(identity, each)]
            if len(rows) < ROWS_PER_READ:
                break
            cursor = rows[-1].cursor
    except ValueError:
        raise Problem("bad_request", f"{(cursor or '')[:80]!r} is not a cursor.") from None
    return found[:limit]


async def _require_pending_call(gateway: Gateway, identity: Identity, call_id: str) -> PendingCall:
    """The open question of a call; raises `Problem` for one that the identity may not see, and audits it."""
    status = await gateway.runtime.status(call_id)
    question = None if status is None else status.question
    if question is not None and gateway.answers.may_see(identity, question):
        return question
    if question is not None:
        await gateway.audit_refusal(
            identity, "read pending call", call_id=call_id, tool=question.tool, code="not_found"
        )
    raise Problem("not_found", f"No call {call_id[:80]} is waiting.")


class AnswerPermission(NamedTuple):
    """The scope that an answer may be given in, and the one question of the call that it may be given to."""

    scope: Scope
    round: int


async def require_may_answer(
    gateway: Gateway, identity: Identity, call_id: str, action: str, round: int | None = None
) -> AnswerPermission:
    """What an identity may answer; raises `Problem`, and audits it, if that is nothing.

    The answer counts for the question that was judged here alone. Another one may be opened before it is carried out.

    Args:
        round: the question that the client names, if it names one.
    """
    status = await gateway.runtime.status(call_id)
    question = None if status is None else status.question
    if status is not None and question is not None and gateway.answers.may_answer(identity, question):
        # The requester answers within a scope of their own, where a call of another user is not found in the store.
        scope = gateway.scope(identity) if question.user == identity.user else gateway.runtime
        if round not in (None, status.round):
            await gateway.audit_refusal(identity, action, call_id=call_id, tool=question.tool, code="conflict")
            raise Problem("conflict", f"Question {round} of call {call_id} is not open.", call_id=call_id)
        return AnswerPermission(scope, status.round)
    if status is not None and (in_progress := await _question_in_progress(gateway, status)) is not None:
        waiting = WaitingCallFields(status.tool, status.user, status.agent, in_progress.waiting_for)
        if round in (None, in_progress.round) and gateway.answers.may_answer(identity, waiting):
            # The runtime lets the same answer wait for the first one, and refuses a different one.
            scope = gateway.scope(identity) if status.user == identity.user else gateway.runtime
            return AnswerPermission(scope, in_progress.round)
    if question is not None and gateway.answers.may_see(identity, question):
        await gateway.audit_refusal(identity, action, call_id=call_id, tool=question.tool)
        raise Problem("denied", f"You may not answer call {call_id}: a rule leaves that to others.", call_id=call_id)
    earlier_scope = None if question is not None else await _scope_of_earlier_answer(gateway, identity, call_id)
    if earlier_scope is not None:
        answered = await _last_answered_round(earlier_scope, call_id)
        if answered is not None:  # the runtime distinguishes a repeated answer from a different one
            return AnswerPermission(earlier_scope, answered if round is None else min(round, answered))
    await gateway.audit_refusal(identity, action, call_id=call_id, code="not_found")
    raise Problem("not_found", f"No call {call_id[:80]} is waiting.", call_id=call_id)


async def _question_in_progress(gateway: Gateway, status: CallStatus) -> PendingRound | None:
    """The question of a call whose answer is being carried out, and is not stored yet."""
    if status.question is not None or status.outcome is not None:
        return None
    rounds = await gateway.runtime.questions(status.call_id)
    is_open = bool(rounds) and rounds[-1].is_open and rounds[-1].inner_call_id is None
    return rounds[-1] if is_open else None


async def _scope_of_earlier_answer(gateway: Gateway, identity: Identity, call_id: str) -> Scope | None:
    """The scope in which an answer to a call may be repeated; None if the identity may neither see nor answer it."""
    if await find_call(gateway, identity, call_id) is not None:
        return gateway.runtime if identity.sees_all_calls else gateway.scope(identity)
    answered = await _last_answered_question(gateway, call_id)
    return gateway.runtime if answered is not None and gateway.answers.may_answer(identity, answered) else None


async def _last_answered_question(gateway: Gateway, call_id: str) -> WaitingCallFields | None:
    """What the rules look at of the last answered question of a call, or of the inner call that asked it."""
    status = await gateway.runtime.status(call_id)
    answered = [each for each in await gateway.runtime.questions(call_id) if not each.is_open]
    if status is None or not answered:
        return None
    last = answered[-1]
    if last.inner_call_id is not None:
        return await _last_answered_question(gateway, last.inner_call_id)
    return WaitingCallFields(status.tool, status.user, status.agent, last.waiting_for)


async def _last_answered_round(scope: Scope, call_id: str) -> int | None:
    """The number of the last question of a call that was answered; those of an inner call follow its own."""
    answered = [each for each in await scope.questions(call_id) if not each.is_open]
    if not answered:
        return None
    last = answered[-1]
    inner = None if last.inner_call_id is None else await _last_answered_round(scope, last.inner_call_id)
    return last.round if inner is None else last.round - 1 + inner


def answered_call_response(outcome: Outcome, call_id: str) -> Response:
    """The outcome of the answered call; a refused answer is a problem, and the call waits as before."""
    raise_if_refused(outcome, *REFUSALS, call_id=call_id)
    return outcome_response(outcome, call_id)


def describe_wait(call: PendingCall) -> dict[str, Any]:
    """What is shown of a call that waits, to all who may see it."""
    names = (
        "call_id", "tool", "arguments", "waiting_for", "message", "request", "round", "created_at", "expires_at",
        "user", "session", "agent", "run", "space", "parent", "display",
    )  # fmt: skip
    return {name: getattr(call, name) for name in names}


def _describe(gateway: Gateway, identity: Identity, call: PendingCall) -> dict[str, Any]:
    return {**describe_wait(call), "may_answer": gateway.answers.may_answer(identity, call)}
