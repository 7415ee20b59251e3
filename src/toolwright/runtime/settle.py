"""Settle: answers to waiting calls. Every answer takes the call through the pipeline again, under the same id.

An answer that ends the call is written together with the outcome that it leads to. One that lets the call go on is
written first; then whoever claims the call runs it, this runtime before any other.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from toolwright.core.content import to_json
from toolwright.core.errors import Code, InvalidArguments
from toolwright.core.events import CallSettled
from toolwright.core.invoke import failed
from toolwright.core.jsontext import parse
from toolwright.core.outcome import Done, Failed, Outcome, Pending, Wait, happened
from toolwright.runtime.approval import Approval
from toolwright.runtime.ledger import said
from toolwright.runtime.resume import again_from, listing_of, take
from toolwright.runtime.waits import Answer, Going, Verdict
from toolwright.store import ledger as rows
from toolwright.store.database import Statement, StoreError, StoreUnavailable, Unexpected, Unstorable, legible
from toolwright.store.outcomes import arguments_text, outcome_of
from toolwright.store.pending import Held, Round

if TYPE_CHECKING:
    from toolwright.runtime.scope import Scope

log = logging.getLogger("toolwright")
_EXPECTED = {"approval": ("approve", "reject"), "result": ("settle",), "input": ("settle",)}
_ENDS = ("reject", "cancel", "expire")
ANNOUNCED = Statement("{announce}")


async def approve(scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None) -> Outcome:
    """Yes, perhaps with other arguments; invalid ones leave the wait open."""
    try:
        if isinstance(arguments, (str, bytes)):  # as models write them: what is kept is what they mean
            arguments = parse(arguments)
        if arguments is not None and (refusal := await _check_edit(scope, call_id, arguments)) is not None:
            return refusal
    except InvalidArguments as error:
        return failed(error).evolve(executed=False)
    except StoreError as error:
        return _unreachable(error)
    return await _answer(scope, call_id, Verdict("approve", approval=Approval(True, always, arguments, by=by), by=by))


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


async def reject(scope: Scope, call_id: str, *, reason: str, by: str | None, code: Code = "rejected") -> Outcome:
    """No; the call ends and its handler never runs."""
    approval = Approval(False, reason=reason, by=by, code=code)
    return await _answer(scope, call_id, Verdict("reject", approval=approval, by=by, reason=reason))


async def settle(scope: Scope, call_id: str, result: Any, *, by: str | None) -> Outcome:
    """The answer of a person, a browser or a webhook: a value, a Done or a Failed."""
    value = result if isinstance(result, (Done, Failed)) else Done(result)
    verdict = Verdict("settle", value=value, by=by)
    try:
        if isinstance(value, Done):
            to_json(value.data)
        verdict.check()
    except Exception as error:  # noqa: BLE001 - a stranger's value: whatever is wrong with it, the call still waits
        return Failed("invalid_arguments", f"The answer cannot be written as JSON: {error}. The call still waits.")
    return await _answer(scope, call_id, verdict)


async def close(scope: Scope, call_id: str, code: Code, message: str) -> Outcome:
    """End a wait without an answer: it was cancelled, or nobody answered in time."""
    try:
        held = await scope.parts.waits.find(call_id, scope.principal)
    except StoreError as error:
        return _unreachable(error)
    if held is None or held.wait is None:
        return _unknown(call_id)
    answer: Answer = "expire" if code == "expired" else "cancel"
    if held.wait.waiting_for == "approval":
        return await _answer(scope, call_id, Verdict(answer, approval=Approval(False, reason=message, code=code)))
    return await _answer(scope, call_id, Verdict(answer, value=Failed(code, message)))


async def _answer(scope: Scope, call_id: str, verdict: Verdict) -> Outcome:
    parts = scope.parts
    if parts.durable and parts.store is None:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if legible(verdict.by) != verdict.by:
        return Failed("invalid_arguments", "Nobody has such a name as is given in `by`. The call still waits.")
    try:
        held = await parts.waits.find(str(call_id), scope.principal)
    except StoreError as error:
        return _unreachable(error)
    if held is None:
        return await _refused(scope, str(call_id), verdict, _unknown(str(call_id)))
    if (going := parts.waits.going.get(call_id)) is not None:
        same = going.task is not None and verdict.same_as(going.answer, going.weight)
        return await _result_of(going.task) if same and going.task else await _refused(scope, held, verdict)
    if (judged := _judged(scope, held, verdict)) is not None:
        if held.wait is None and isinstance(judged, Failed) and (inner := held.rounds[-1].inner_call) is not None:
            return await _through_inner(scope, held, inner, verdict)  # whose answer was the answer to both
        goes_on = held.call.state == "ready" and isinstance(judged, Pending)
        # Not by whoever answers: if he hangs up, the call must not be left taken by nobody.
        again = await asyncio.shield(parts.reaper.own(take_ready(scope, held))) if goes_on else None
        return await _result_of(again) if again else await _refused(scope, held, verdict, judged)
    assert held.wait is not None
    if held.wait.inner_call is not None and verdict.answer != "expire":
        return await _through_inner(scope, held, held.wait.inner_call, verdict)
    return await act(scope, held, held.wait, verdict)


def _judged(scope: Scope, held: Held, verdict: Verdict) -> Outcome | None:
    """Why an answer changes nothing, or None where it counts."""
    wait, waits = held.wait, scope.parts.waits
    fits = wait is not None and verdict.answer in (*_EXPECTED[wait.waiting_for], "cancel", "expire")
    # Where another question has been asked since, the answer is to that one, even if both answers are the same.
    if not fits and any(verdict.same_as(round.answer, round.weight) for round in held.rounds if not round.open):
        return waits.state(held)
    if wait is None:
        return _too_late(held)
    if not scope.parts.open:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if wait.late and verdict.answer not in ("expire", "cancel"):
        scope.parts.sweep()
        return Failed("expired", "nobody answered in time.")
    if not fits and wait.inner_call is None:
        problem = f"Call {held.call.call_id} waits for {wait.waiting_for}, so {verdict.answer} does not fit."
        return Failed("conflict", problem)
    return None


async def act(scope: Scope, held: Held, wait: Round, verdict: Verdict) -> Outcome:
    """Act on an answer. The runtime owns what follows: it goes on when the one who answered hangs up."""
    parts, call_id = scope.parts, held.call.call_id
    going = parts.waits.going[call_id] = Going(verdict.answer, verdict.weight())
    going.task = parts.reaper.own(_carry_out(scope, held, wait, verdict, going))
    return await _result_of(going.task)


async def _carry_out(scope: Scope, held: Held, wait: Round, verdict: Verdict, going: Going) -> Outcome:
    waits, call_id = scope.parts.waits, held.call.call_id
    lost = False
    try:
        outcome = await _go_on(scope, held, wait, verdict)
    except Unexpected:  # somebody else answered in that very moment
        lost = True
    except StoreError as error:
        return _unreachable(error)
    finally:
        if waits.going.get(call_id) is going:
            del waits.going[call_id]
    if lost:
        return await _answer(scope, call_id, verdict)
    await _tell_followers(scope, call_id, outcome)
    return outcome


async def _result_of(running: asyncio.Task[Outcome]) -> Outcome:
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        return Failed("cancelled", "The runtime closed before the call ended.", executed=True)


async def _go_on(scope: Scope, held: Held, wait: Round, verdict: Verdict) -> Outcome:
    parts = scope.parts
    listing = listing_of(parts, held)
    if verdict.answer == "approve" and listing is not None and listing.tool.definition != held.call.definition:
        changed = f"{held.call.tool} has changed since it was asked about. Call it again."
        verdict = Verdict("reject", approval=Approval(False, reason=changed, code="conflict"), by=verdict.by)
    # A provider that asked for input goes on with it; to any other wait the answer is the outcome.
    asked = wait.waiting_for == "input" and wait.inner_call is None
    resumes = asked and isinstance(verdict.value, Done) and (listing is None or listing.provider is not None)
    answered, fence = verdict.to(held, wait, scope.principal), None
    if verdict.answer == "approve" or resumes:
        fence = await _commit(scope, held, verdict, answered, here=listing is not None)
        _tell(scope, held, wait, verdict)
        if fence is None:
            return Pending("result", held.call.call_id, f"Approved, but {held.call.tool} is not here now.")
    else:
        _tell(scope, held, wait, verdict)
    if verdict.approval and verdict.approval.arguments is not None:
        held = held._replace(call=held.call._replace(arguments=arguments_text(verdict.approval.arguments)))
    if (outcome := await _to_live_caller(parts, held, verdict, None if fence else answered, fence)) is not None:
        return outcome
    return await _resume(scope, held, verdict, None if fence else answered, fence)


async def _commit(scope: Scope, held: Held, verdict: Verdict, answered: Any, *, here: bool) -> int | None:
    """Write that the call may go on; the fence under which it goes on here, if it can."""
    parts, call = scope.parts, held.call
    store = await parts.remembered()
    edited = verdict.approval.arguments if verdict.approval else None
    arguments = call.arguments if edited is None else arguments_text(edited)
    steps = [answered.statement(), rows.goes_on(call.call_id, parts.owner if here else None, arguments)]
    if parts.durable:
        detail, user = {"answer": verdict.answer, "weight": answered.weight}, call.user_id
        steps.append(store.audit.row("answer", call.call_id, call.tool, user=user, by=verdict.by, detail=detail))
        steps.append(store.journal.entry("settled", call.call_id, call.tool, verdict.answer, user=user))
    if not here:
        steps.append(ANNOUNCED)
    try:
        results = await store.write(steps)
    except StoreUnavailable:
        if here:  # it may have been kept: then nobody goes on with it until it is put back
            parts.ledger.unwritten[call.call_id] = [rows.put_back(call.call_id, parts.owner, call.fence + 1)]
        raise
    return results[1][0]["fence"] if here else None


async def _to_live_caller(parts: Any, held: Held, verdict: Verdict, answered: Any, fence: int | None) -> Outcome | None:
    """A caller who waits for the answer goes on with it itself; None if there is none, or it left just then."""
    call_id = held.call.call_id
    live, invocation = parts.waits.live.get(call_id), parts.waits.here.get(call_id)
    if live is None or live.done() or invocation is None:
        return None
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    invocation.on_end = partial(_hand_over, ended)
    take(invocation, verdict, held, answered, fence)
    live.set_result(True)
    outcome = await ended
    if invocation.lost:
        raise Unexpected("somebody else was first")
    if not (isinstance(outcome, Failed) and outcome.code == "cancelled"):
        return outcome
    # It left while it went on. What counts is what was written; if nothing was, the answer counts all the same.
    found = await parts.ledger.find(call_id)
    return said(found) if found is not None and found.state == "ended" else None


def _hand_over(waiting: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


async def _resume(scope: Scope, held: Held, verdict: Verdict, answered: Any, fence: int | None) -> Outcome:
    """The same call once more, from its stored arguments."""
    parts = scope.parts
    again, stack = again_from(parts, held)
    take(again, verdict, held, answered, fence)
    if parts.closed():  # meanwhile; what was claimed is given back when it leaves the store
        raise StoreUnavailable("The runtime is not running.")
    outcome = await stack(again)
    if again.lost and answered is not None:
        raise Unexpected("somebody else was first")
    if isinstance(outcome, Pending) or again.closed:
        return outcome
    if fence is not None and parts.closed() and not happened(outcome):
        return outcome  # the runtime closes: it was let run, and is for others to go on with
    return await parts.ledger.end(again, outcome)


async def take_ready(scope: Scope, held: Held) -> asyncio.Task[Outcome] | None:
    """Claim a call that was answered elsewhere, or before a restart, and go on with it where its tool is here."""
    parts, call, last = scope.parts, held.call, held.rounds[-1]
    listing = listing_of(parts, held)
    if listing is None or listing.tool.definition != call.definition or not parts.open:
        return None
    store = await parts.remembered()
    [taken] = await store.write([rows.taken(call.call_id, parts.owner)])
    if not taken:
        return None
    going = parts.waits.going[call.call_id] = Going(last.answer or "", last.weight or "")
    going.task = parts.reaper.own(_go_on_with(scope, held, taken[0]["fence"], going))
    return going.task


async def _go_on_with(scope: Scope, held: Held, fence: int, going: Going) -> Outcome:
    waits, call_id = scope.parts.waits, held.call.call_id
    try:
        outcome = await _resume(scope, held, Verdict.kept(held.rounds[-1]), None, fence)
    except StoreError as error:
        return _unreachable(error)
    finally:
        if waits.going.get(call_id) is going:
            del waits.going[call_id]
    await _tell_followers(scope, call_id, outcome)
    return outcome


async def _tell_followers(scope: Scope, call_id: str, outcome: Outcome) -> None:
    """What was answered is answered; whoever waits for it is found at the next beat at the latest."""
    try:
        await tell_followers(scope, call_id, outcome)
    except StoreError as error:
        log.warning("Calls that wait for call %s are told later: %s", call_id, error)


async def _through_inner(scope: Scope, held: Held, inner: str, verdict: Verdict) -> Outcome:
    """The call waits for another one: the answer is meant for that."""
    outcome = await _answer(scope, inner, verdict)
    if isinstance(outcome, Failed) and outcome.code in ("not_found", "conflict", "expired", "invalid_arguments"):
        return outcome
    return await scope.parts.waits.state_of(held.call.call_id, scope.principal) or outcome


async def tell_followers(scope: Scope, call_id: str, outcome: Outcome | None = None) -> None:
    """Calls that wait for this one end as it does."""
    parts = scope.parts
    store = await parts.remembered()
    followers = await store.pending.followers(call_id)
    found = await parts.ledger.find(call_id) if followers else None
    if found is None or found.outcome is None:
        return
    told = outcome_of(found.outcome) if outcome is None or isinstance(outcome, Pending) else outcome.evolve()
    for follower in followers:
        outer = await store.pending.find(follower)
        if outer is not None and outer.wait is not None and follower not in parts.waits.going:
            await act(parts.root, outer, outer.wait, Verdict("settle", value=told))


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
    return Failed("conflict", f"Call {held.call.call_id} was answered otherwise already.")


def _unknown(call_id: str) -> Failed:
    return Failed("not_found", f"No call {call_id[:80]} is waiting.")


def _unreachable(error: StoreError) -> Failed:
    code: Code = "invalid_arguments" if isinstance(error, Unstorable) else "unavailable"
    return Failed(code, f"the answer could not be written down, and the call still waits: {error}")


def _tell(scope: Scope, held: Held, wait: Round, verdict: Verdict) -> None:
    parts = scope.parts
    if parts.listeners.heard:
        call, always = held.call, bool(verdict.approval and verdict.approval.always)
        parts.listeners.emit(
            CallSettled(
                call.call_id, call.tool, verdict.answer, cast(Wait, wait.waiting_for), verdict.by, always,
                verdict.reason, parts.clock.time(),
            )
        )  # fmt: skip
