"""Settle: answers to waiting calls are checked and judged here; what counts is acted on in `answer`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from surehand.core.content import to_json
from surehand.core.errors import Code, InvalidArguments
from surehand.core.invoke import failed
from surehand.core.jsontext import parse
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.answer import act, result_of, take_ready, tell_followers, unreachable
from surehand.runtime.approval import Approval
from surehand.runtime.resume import listing_of
from surehand.runtime.verdict import Answer, Verdict
from surehand.store.database import StoreError, Unstorable, storable_name
from surehand.store.outcomes import arguments_text, outcome_of
from surehand.store.pending import Held, Round

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
_PAST = {"approve": "approved", "reject": "rejected", "settle": "settled", "cancel": "cancelled", "expire": "expired"}
MOST_TRIES = 10
_EXPECTED = {"approval": ("approve", "reject"), "result": ("settle",), "input": ("settle",)}


async def approve(
    scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
) -> Outcome:
    """Yes, perhaps with other arguments; invalid ones leave the wait open."""
    try:
        if isinstance(arguments, (str, bytes)):  # as models write them: what is kept is what they mean
            arguments = parse(arguments)
        if arguments is not None and (refusal := await _check_edit(scope, call_id, arguments)) is not None:
            return refusal
    except InvalidArguments as error:
        return failed(error).evolve(executed=False)
    except StoreError as error:
        return unreachable(error)
    approval = Approval(True, always, arguments, by=by)
    return await _answer(scope, call_id, Verdict("approve", approval=approval, by=by, round=round))


async def _check_edit(scope: Scope, call_id: str, arguments: Any) -> Failed | None:
    waits = scope.parts.waits
    held = await waits.find(str(call_id), scope.principal)
    while held is not None and held.wait is not None and held.wait.inner_call is not None:
        held = await waits.find(held.wait.inner_call, scope.principal)  # whose arguments they are
    if held is None:
        return None
    listing = listing_of(scope.parts, held)
    if listing is None:
        return Failed("unavailable", f"{held.call.tool} is not here, so edited arguments cannot be checked.")
    try:
        listing.tool.check(arguments)
        arguments_text(arguments)
    except InvalidArguments as error:
        return failed(error).evolve(executed=False)
    except Unstorable as error:
        return Failed("invalid_arguments", f"{error} The call still waits.")
    return None


async def reject(
    scope: Scope, call_id: str, *, reason: str, by: str | None, code: Code = "rejected", round: int | None = None
) -> Outcome:
    """No; the call ends and its handler never runs."""
    approval = Approval(False, reason=reason, by=by, code=code)
    return await _answer(scope, call_id, Verdict("reject", approval=approval, by=by, reason=reason, round=round))


async def settle(scope: Scope, call_id: str, result: Any, *, by: str | None, round: int | None = None) -> Outcome:
    """The answer of a person, a browser or a webhook: a value, a Done or a Failed."""
    value = result if isinstance(result, (Done, Failed)) else Done(result)
    verdict = Verdict("settle", value=value, by=by, round=round)
    try:
        if isinstance(value, Done):
            to_json(value.data)
        verdict.check()
    except Exception as error:  # noqa: BLE001 - a stranger's value: whatever is wrong with it, the call still waits
        return Failed("invalid_arguments", f"The answer cannot be written as JSON: {error}. The call still waits.")
    return await _answer(scope, call_id, verdict)


async def close(scope: Scope, call_id: str, code: Code, message: str, by: str | None = None) -> Outcome:
    """End a wait without an answer, or take back an answer that nobody has acted on."""
    answer: Answer = "expire" if code == "expired" else "cancel"
    try:
        held = await scope.parts.waits.find(call_id, scope.principal)
    except StoreError as error:
        return unreachable(error)
    if held is None or not (held.wait or held.is_ready):
        return _unknown(call_id)
    if held.call.state == "unknown":  # it may have happened: no word but that of who has found out can end it
        return scope.parts.ledger.said(held.call)
    return await _answer(scope, call_id, Verdict.ending(held.rounds[-1], answer, code, message, by))


async def _answer(scope: Scope, call_id: str, verdict: Verdict) -> Outcome:
    if scope.parts.durable and scope.parts.store is None:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if storable_name(verdict.by) != verdict.by:
        return Failed("invalid_arguments", "Nobody has such a name as is given in `by`. The call still waits.")
    for _ in range(MOST_TRIES):  # whoever answers in the same moment may be first: then this one is judged again
        try:
            held = await scope.parts.waits.find(str(call_id), scope.principal)
        except StoreError as error:
            return unreachable(error)
        if held is None:
            return await _refused(scope, str(call_id), verdict, _unknown(str(call_id)))
        if (outcome := await _answer_to(scope, held, verdict)) is not None:
            return outcome
    return Failed("conflict", f"Call {call_id} is answered by others all the time.")


async def _answer_to(scope: Scope, held: Held, verdict: Verdict) -> Outcome | None:
    """The outcome, or None where somebody else answered in that very moment."""
    if (going := scope.parts.waits.going.get(held.call.call_id)) is not None:
        if going.task is not None and verdict.is_to(going.round) and verdict.same_as(going.answer, going.weight):
            return await result_of(going.task)
        if going.task is not None and going.answer == "expire":
            await result_of(going.task)  # nobody has answered: whoever comes now hears that its time is up
            return None
        return await _refused(scope, held, verdict)
    if held.is_ready and verdict.answer in ("cancel", "expire"):
        return await _taken_up(scope, held, verdict.on(held.rounds[-1]))
    if (judged := _judged(scope, held, verdict)) is not None:
        return await _without_effect(scope, held, verdict, judged)
    assert held.wait is not None
    if held.wait.inner_call is not None and verdict.answer != "expire":
        return await _through_inner(scope, held, held.wait.inner_call, verdict.within(held.wait))
    return await act(scope, held, held.wait, verdict)


async def _without_effect(scope: Scope, held: Held, verdict: Verdict, judged: Outcome) -> Outcome | None:
    last = held.rounds[-1]
    if held.wait is None and isinstance(judged, Failed) and last.inner_call is not None:  # its answer was that to both
        return await _through_inner(scope, held, last.inner_call, verdict.within(last))
    if held.is_ready and isinstance(judged, Pending):
        return await _taken_up(scope, held) or await _refused(scope, held, verdict, judged)
    return await _refused(scope, held, verdict, judged)


async def _taken_up(scope: Scope, held: Held, ending: Verdict | None = None) -> Outcome | None:
    """Take a call, but not by whoever asks: if he hangs up, the call must not be left taken by nobody."""
    try:
        taken = await asyncio.shield(scope.parts.reaper.own(take_ready(scope, held, ending)))
    except StoreError as error:
        return unreachable(error)
    return await result_of(taken) if taken is not None else None


def _judged(scope: Scope, held: Held, verdict: Verdict) -> Outcome | None:
    """Why an answer changes nothing, or None where it counts."""
    wait, waits = held.wait, scope.parts.waits
    fits = wait is not None and verdict.answer in (*_EXPECTED[wait.waiting_for], "cancel", "expire")
    if wait is not None and wait.inner_call is None and not verdict.is_to(wait.round):
        return Failed("conflict", _not_that_one(held, wait, verdict))
    # Where another question has been asked since, an answer that does not say to which it is, is to that one, even if
    # both answers are the same.
    closed = [round for round in held.rounds if not round.open and verdict.is_to(round.round)]
    if not fits and any(verdict.same_as(round.answer, round.weight) for round in closed):
        return waits.state(held)
    if wait is None:
        return _too_late(held)
    if not scope.parts.open:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if wait.late and verdict.answer not in ("expire", "cancel"):
        scope.parts.sweep()
        return Failed("expired", "nobody answered in time.")
    if not fits and wait.inner_call is None:
        verbs = " or ".join(_EXPECTED[wait.waiting_for])
        problem = f"Call {held.call.call_id} waits for {wait.waiting_for}: {verbs} it, {verdict.answer} does not fit."
        return Failed("conflict", problem)
    return None


def _not_that_one(held: Held, wait: Round, verdict: Verdict) -> str:
    if verdict.round is not None and verdict.round > wait.round:
        asked, open_ = (number + verdict.before for number in (verdict.round, wait.round))
        return f"There is no question {asked} yet; question {open_} is open."
    return f"Call {held.call.call_id}: the question was answered already; another one is open."


async def _through_inner(scope: Scope, held: Held, inner: str, verdict: Verdict) -> Outcome:
    """The call waits for another one: the answer is meant for that."""
    outcome = await _answer(scope, inner, verdict)
    if isinstance(outcome, Failed) and outcome.code in ("not_found", "conflict", "expired", "invalid_arguments"):
        return outcome
    if not isinstance(outcome, Pending):
        await tell_followers(scope, inner)  # who waits for it may not have been told yet
    if (going := scope.parts.waits.going.get(held.call.call_id)) is not None and going.task is not None:
        await result_of(going.task)  # this runtime's own keeper has noticed the answer, and ends the call just now
    return await scope.parts.waits.state_of(held.call.call_id, scope.principal) or outcome


async def _refused(scope: Scope, call: Held | str, verdict: Verdict, outcome: Outcome | None = None) -> Outcome:
    """Every try is in the audit, also one that came to nothing."""
    outcome = _too_late(call) if outcome is None and isinstance(call, Held) else outcome
    store, refused = scope.parts.store, ("conflict", "expired", "not_found")
    if scope.parts.durable and store is not None and isinstance(outcome, Failed) and outcome.code in refused:
        call_id, tool = (call.call.call_id, call.call.tool) if isinstance(call, Held) else (repr(call)[:200], "")
        detail = {"answer": verdict.answer, "code": outcome.code}
        who = scope.principal.user
        row = store.audit.row("refused", call_id, tool, user=who, by=verdict.by, detail=detail)
        try:
            await store.write([row])
        except StoreError as error:
            log.warning("An answer to call %s was refused, and the audit does not know: %s", call_id, error)
    assert outcome is not None
    return outcome


def _too_late(held: Held) -> Failed:
    last = held.rounds[-1]
    if held.call.state == "ended" and last.answer == "expire":
        return Failed("expired", "nobody answered in time.")
    if last.answer == "cancel" and last.waiting_for == "input" and last.value is not None:
        told = outcome_of(last.value)
        if isinstance(told, Failed) and told.code in ("interrupted", "unknown_effect"):  # the other side left first
            return told.evolve(executed=True)
    answer = _PAST.get(last.answer or "", "answered otherwise")
    return Failed("conflict", f"Call {held.call.call_id} was {answer} already; the first answer counts.")


def _unknown(call_id: str) -> Failed:
    return Failed("not_found", f"No call {call_id[:80]} is waiting.")
