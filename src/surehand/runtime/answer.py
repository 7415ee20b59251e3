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
from surehand.core.errors import Code
from surehand.core.events import CallResumed, CallSettled
from surehand.core.outcome import Done, Failed, Outcome, Pending, Wait, happened
from surehand.runtime.resume import Turn, again_from, listing_of, take
from surehand.runtime.verdict import Going, Verdict
from surehand.store import ledger as rows
from surehand.store.database import Statement, StoreError, StoreUnavailable, Unexpected, Unstorable
from surehand.store.outcomes import outcome_of
from surehand.store.pending import Answered, Held, Round

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from surehand.catalogue.listing import Listing
    from surehand.core.provider import Provider
    from surehand.runtime.invocation import Invocation
    from surehand.runtime.scope import Scope

T = TypeVar("T")
log = logging.getLogger("surehand")
ANNOUNCED = Statement("{announce}")


async def act(scope: Scope, held: Held, wait: Round, verdict: Verdict) -> Outcome | None:
    """Act on an answer; None if somebody else answered first."""
    going = Going(verdict.answer, verdict.weight(), wait.round)
    return await result_of(_begin(scope, held, going, _go_on(scope, held, wait, verdict)))


async def take_ready(scope: Scope, held: Held, ending: Verdict | None = None) -> asyncio.Task[Outcome | None] | None:
    """Claim a call that was answered elsewhere, or before a restart, and go on with it where its tool is here.

    Args:
        ending: end it instead, wherever its tool is.
    """
    parts, call, last = scope.parts, held.call, held.rounds[-1]
    listing = listing_of(parts, held)
    here = listing is not None and listing.tool.definition == call.definition and _goes_on_here(listing, held)
    if ending is None and not held.is_as_asked:
        ending = _altered(held, last)
    if not parts.open or not (here or ending):
        return None
    verdict = ending or Verdict.kept(last)
    fence = await _taken(scope, held, to_end=ending is not None)
    if fence is None:
        return None
    turn = Turn(verdict, fence=fence)
    going = Going(last.answer or "", last.weight or "", last.round)
    return _begin(scope, held, going, _resume(scope, held, turn))


async def _taken(scope: Scope, held: Held, *, to_end: bool) -> int | None:
    parts, call = scope.parts, held.call
    store = await parts.remembered()
    await _mend(scope, call.call_id)
    try:
        [found] = await store.write([rows.taken(call, parts.owner, to_end=to_end)])
    except StoreUnavailable:  # it may have been kept: then nobody goes on with it until it is put back
        parts.ledger.unwritten.keep(call.call_id, [rows.put_back(call.call_id, parts.owner, call.fence + 1)])
        raise
    return found[0]["fence"] if found else None


async def _mend(scope: Scope, call_id: str) -> None:
    """What is left of a try that failed would put this one back, too."""
    unwritten = scope.parts.ledger.unwritten
    if call_id in unwritten:
        await unwritten.mend(await scope.parts.remembered(), call_id)


def _altered(held: Held, wait: Round, by: str | None = None) -> Verdict:
    problem = (
        f"call {held.call.call_id} is not what was asked about any more. Call {held.call.tool} again, under a new id."
    )
    return Verdict.ending(wait, "reject", "conflict", problem, by)


async def result_of(running: asyncio.Task[T]) -> T | Failed:
    """What came of it; whoever asks may hang up, and it goes on."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        return Failed("cancelled", "The runtime closed before the call ended.", executed=True)


def _begin(
    scope: Scope, held: Held, going: Going, work: Coroutine[object, object, Outcome]
) -> asyncio.Task[Outcome | None]:
    """The runtime owns what follows: it goes on when the one who answered hangs up."""
    scope.parts.waits.going[held.call.call_id] = going
    going.task = scope.parts.reaper.own(_carry_out(scope, held.call.call_id, going, work))
    return going.task


async def _carry_out(
    scope: Scope, call_id: str, going: Going, work: Coroutine[object, object, Outcome]
) -> Outcome | None:
    going_on = scope.parts.waits.going
    try:
        outcome = await work
    except Unexpected:
        return None
    except StoreError as error:
        return unreachable(error)
    finally:
        if going_on.get(call_id) is going:
            del going_on[call_id]
    try:
        await tell_followers(scope, call_id, outcome)
    except StoreError as error:  # what was answered is answered; they are found at the next beat at the latest
        log.warning("Calls that wait for call %s are told later: %s", call_id, error)
    return outcome


async def _go_on(scope: Scope, held: Held, wait: Round, verdict: Verdict) -> Outcome:
    listing = listing_of(scope.parts, held)
    verdict, goes_on = _fitting(held, wait, verdict, listing)
    edited = verdict.edited(held)
    answered, tell = verdict.to(edited, wait, scope.principal), partial(_tell, scope, held, wait, verdict)
    if not goes_on:
        outcome = await _pass_on(scope, held, Turn(verdict, answered, on_settled=tell))
        if wait.waiting_for == "input" and listing is not None and listing.provider is not None:
            await _let_go(listing.provider, Call(listing.tool.name, id=held.call.call_id), verdict.answer)
        return outcome
    here = listing is not None and _goes_on_here(listing, held)
    fence = await _commit(scope, edited, verdict, answered, here=here)
    tell()
    if fence is None:
        said = "Approved" if verdict.answer == "approve" else "Answered"
        return Pending("result", held.call.call_id, f"{said}, but {held.call.tool} is not here now.")
    return await _pass_on(scope, edited, Turn(verdict, fence=fence))


async def _let_go(provider: Provider, call: Call, reason: str) -> None:
    """Whoever asked for input need not wait for it any longer."""
    try:
        await provider.cancel(call, reason)
    except Exception:
        log.exception("%s could not be told that nobody answers", provider.namespace)


def _goes_on_here(listing: Listing, held: Held) -> bool:
    """Some providers can go on only where they asked; unless nobody is left there, and that is all there is to say."""
    if listing.provider is None or held.rounds[-1].waiting_for != "input" or held.rounds[-1].inner_call is not None:
        return True
    return listing.provider.holds(held.note) or listing.provider.lost(held.note) is not None


def _fitting(held: Held, wait: Round, verdict: Verdict, listing: Listing | None) -> tuple[Verdict, bool]:
    """The answer, and whether the call goes on with it; a no where the call is not what was asked about any more."""
    # A provider that asked for input goes on with it; to any other wait the answer is the outcome.
    asked = wait.waiting_for == "input" and wait.inner_call is None
    resumes = asked and isinstance(verdict.value, Done) and (listing is None or listing.provider is not None)
    if verdict.answer != "approve" and not resumes:
        return verdict, False
    if not held.is_as_asked:
        return _altered(held, wait, verdict.by), False
    if verdict.answer == "approve" and listing is not None and listing.tool.definition != held.call.definition:
        changed = f"{held.call.tool} has changed since it was asked about. Call it again, under a new id."
        return Verdict.ending(wait, "reject", "conflict", changed, verdict.by), False
    return verdict, True


async def _commit(scope: Scope, held: Held, verdict: Verdict, answered: Answered, *, here: bool) -> int | None:
    """Write that the call may go on; the fence under which it goes on here, if it can."""
    parts, call = scope.parts, held.call
    store = await parts.remembered()
    await _mend(scope, call.call_id)
    steps = [answered.statement(), rows.goes_on(call.call_id, parts.owner if here else None, call.arguments)]
    if parts.durable:
        detail, user = {"answer": verdict.answer, "weight": answered.weight}, call.user_id
        steps.append(store.audit.row("answer", call.call_id, call.tool, user=user, by=verdict.by, detail=detail))
        steps.append(store.journal.entry("settled", call.call_id, call.tool, verdict.answer, user=user))
        if (run := json.loads(call.context).get("turn")) is not None:
            steps += store.streams.of_call(run, "settled", call.call_id, call.tool, verdict.answer, 0.0)
    if not here:
        steps.append(ANNOUNCED)
    try:
        results = await store.write(steps)
    except StoreUnavailable:
        if here:  # it may have been kept: then nobody goes on with it until it is put back
            parts.ledger.unwritten.keep(call.call_id, [rows.put_back(call.call_id, parts.owner, call.fence + 1)])
        raise
    return results[1][0]["fence"] if here else None


async def _pass_on(scope: Scope, held: Held, turn: Turn) -> Outcome:
    """To a caller who waits for the answer and goes on with it itself, or else to the same call once more."""
    return await _to_live_caller(scope, held, turn) or await _resume(scope, held, turn)


async def _to_live_caller(scope: Scope, held: Held, turn: Turn) -> Outcome | None:
    """None if there is none, or it left just then."""
    waits, call_id = scope.parts.waits, held.call.call_id
    live, invocation = waits.live.get(call_id), waits.here.get(call_id)
    if live is None or live.done() or invocation is None:
        return None
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    invocation.on_end = partial(_hand_over, ended)
    take(invocation, held, turn)
    live.set_result(True)
    outcome = await ended
    if invocation.lost:
        raise Unexpected("somebody else was first")
    if not (isinstance(outcome, Failed) and outcome.code == "cancelled"):
        return outcome
    # It left while it went on. What counts is what was written; if nothing was, the answer counts all the same.
    found = await scope.parts.ledger.find(call_id)
    return scope.parts.ledger.said(found) if found is not None and found.state == "ended" else None


def _hand_over(waiting: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


async def _resume(scope: Scope, held: Held, turn: Turn) -> Outcome:
    """The same call once more, from its stored arguments."""
    parts = scope.parts
    again, stack = again_from(parts, held)
    take(again, held, turn)
    if parts.closed():  # meanwhile; what was claimed is given back when it leaves the store
        raise StoreUnavailable("The runtime is not running.")
    outcome = await stack(again)
    if again.lost and turn.answered is not None:
        raise Unexpected("somebody else was first")
    if isinstance(outcome, Pending) or again.closed:
        return outcome
    if turn.fence is not None and parts.closed() and not happened(outcome):
        return Pending("result", held.call.call_id, f"{held.call.tool} was let run, and goes on where it is again.")
    return await parts.ledger.end(again, outcome)


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


def unreachable(error: StoreError) -> Failed:
    """What whoever answered is told."""
    code: Code = "invalid_arguments" if isinstance(error, Unstorable) else "unavailable"
    return Failed(code, f"the answer could not be written down, and the call still waits: {error}")


def _tell(scope: Scope, held: Held, wait: Round, verdict: Verdict, ended: Invocation | None = None) -> None:
    """Only of what is written: an answer that came second is no news."""
    parts = scope.parts
    if parts.listeners.heard:
        call, always = held.call, bool(verdict.approval and verdict.approval.always)
        parts.listeners.emit(
            CallSettled(
                call.call_id, call.tool, verdict.answer, cast(Wait, wait.waiting_for), verdict.by, always,
                verdict.reason, parts.clock.time(),
            )
        )  # fmt: skip
        if ended is not None and ended.resumed:
            parts.listeners.emit(CallResumed(call.call_id, call.tool, parts.clock.time()))
