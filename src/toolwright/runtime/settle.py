"""Settle: answers to waiting calls. Every answer takes the call through the pipeline again, under the same id."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from toolwright.core.content import to_json
from toolwright.core.errors import Code, InvalidArguments
from toolwright.core.events import CallSettled
from toolwright.core.invoke import failed
from toolwright.core.outcome import Done, Failed, Outcome, Pending
from toolwright.runtime.approval import Approval
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.plain import plain
from toolwright.runtime.waits import Answer, Held, Verdict, WaitingCall, take

if TYPE_CHECKING:
    from toolwright.runtime.scope import Scope

_EXPECTED = {"approval": ("approve", "reject"), "result": ("settle",), "input": ("settle",)}


async def approve(scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None) -> Outcome:
    """Yes, perhaps with other arguments; invalid ones leave the wait open."""
    held = scope.parts.waits.find(call_id, scope.principal)
    while held is not None and held.inner is not None:  # it waits for another call, whose arguments they are
        held = scope.parts.waits.find(held.inner, scope.principal)
    if held is not None and arguments is not None:
        listing = held.invocation.scope.find(held.invocation.listing.name)
        try:
            (listing or held.invocation.listing).tool.check(arguments)
            arguments = deepcopy(arguments)  # what is approved now is what runs, whatever the caller does to it
        except InvalidArguments as error:
            return failed(error).evolve(executed=False)
    return await _answer(scope, call_id, Verdict("approve", approval=Approval(True, always, arguments, by=by), by=by))


async def reject(scope: Scope, call_id: str, *, reason: str, by: str | None, code: Code = "rejected") -> Outcome:
    """No; the call ends and its handler never runs."""
    approval = Approval(False, reason=reason, by=by, code=code)
    return await _answer(scope, call_id, Verdict("reject", approval=approval, by=by, reason=reason))


async def settle(scope: Scope, call_id: str, result: Any, *, by: str | None) -> Outcome:
    """The answer of a person, a browser or a webhook: a value, a Done or a Failed."""
    value = result if isinstance(result, (Done, Failed)) else Done(result)
    try:
        if isinstance(value, Done):
            to_json(value.data)
    except Exception as error:  # noqa: BLE001 - a stranger's value: whatever is wrong with it, the call still waits
        return Failed("invalid_arguments", f"The answer cannot be written as JSON: {error}. The call still waits.")
    return await _answer(scope, call_id, Verdict("settle", value=value, by=by))


async def close(scope: Scope, call_id: str, code: Code, message: str) -> Outcome:
    """End a wait without an answer: it was cancelled, or nobody answered in time."""
    held = scope.parts.waits.find(call_id, scope.principal)
    if held is None or held.wait is None:
        return _unknown(call_id)
    answer: Answer = "expire" if code == "expired" else "cancel"
    if held.wait.waiting_for == "approval":
        return await _answer(scope, call_id, Verdict(answer, approval=Approval(False, reason=message, code=code)))
    return await _answer(scope, call_id, Verdict(answer, value=Failed(code, message)))


async def _answer(scope: Scope, call_id: str, verdict: Verdict) -> Outcome:
    held = scope.parts.waits.find(call_id, scope.principal)
    if held is None:
        return _unknown(call_id)
    # Where another question has been asked since, the answer is to that one, even if both answers are the same.
    if not _fits(held, verdict) and any(verdict.same_as(earlier) for earlier in held.verdicts):
        return await _state(held)
    if held.outcome is not None or held.resuming is not None or held.wait is None:
        return _too_late(held)
    if not scope.parts.open:
        return Failed("unavailable", "The runtime is not running; the call still waits.")
    if held.inner is not None and verdict.answer != "expire":
        return await _through_inner(scope, held, verdict)
    if not _fits(held, verdict) and verdict.answer not in ("cancel", "expire"):
        return Failed(
            "conflict", f"Call {call_id} waits for {held.wait.waiting_for}, so {verdict.answer} does not fit."
        )
    return await _act(scope, held, held.wait, verdict)


def _fits(held: Held, verdict: Verdict) -> bool:
    return held.resuming is None and held.wait is not None and verdict.answer in _EXPECTED[held.wait.waiting_for]


async def _act(scope: Scope, held: Held, wait: WaitingCall, verdict: Verdict) -> Outcome:
    held.verdicts.append(verdict)
    held.stop_timer()
    _tell(scope, wait, verdict)
    # The runtime owns what follows: a call that was approved runs on when the one who approved it hangs up.
    held.resuming = scope.parts.reaper.own(_carry_out(scope, held, wait, verdict))
    return await _result_of(held.resuming)


async def _carry_out(scope: Scope, held: Held, wait: WaitingCall, verdict: Verdict) -> Outcome:
    try:
        outcome = await _go_on(held, wait, verdict)
    finally:
        if held.resuming is asyncio.current_task():
            held.resuming = None
    await _tell_followers(scope, held)
    return outcome


async def _result_of(running: asyncio.Task[Outcome]) -> Outcome:
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        return Failed("cancelled", "The runtime closed before the call ended.", executed=True)


async def _go_on(held: Held, wait: WaitingCall, verdict: Verdict) -> Outcome:
    if held.live is not None and not held.live.done():
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        held.invocation.on_end = partial(_hand_over, ended)
        held.live.set_result(verdict)
        outcome = await ended
        if held.outcome is not None or held.wait is not wait:
            return outcome
        # Its caller left in that very moment: the answer counts all the same.
    return await _resume(held, wait, verdict)


def _hand_over(waiting: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


async def _resume(held: Held, wait: WaitingCall, verdict: Verdict) -> Outcome:
    """The same call once more, from its stored arguments."""
    before, parts = held.invocation, held.invocation.scope.parts
    listing = before.scope.find(before.listing.name)
    if verdict.answer == "approve" and listing is None:
        held.verdicts.remove(verdict)
        parts.waits.watch_expiry(held)
        return Pending("result", wait.call_id, f"Approved, but {wait.tool} is not here now.")
    same = listing is not None and listing.tool.definition == held.definition
    if verdict.answer == "approve" and not same:
        changed = f"{wait.tool} has changed since it was asked about. Call it again."
        verdict = Verdict("reject", approval=Approval(False, reason=changed, code="conflict"))
    if verdict.approval and (edited := verdict.approval.arguments) is not None:
        held.arguments, held.stored = plain(edited), edited
    again = Invocation(before.scope, before.listing.name, held.stored)
    again._id, again.given, again.resumed, again.round = wait.call_id, before.given, True, before.round
    again.model_id, again.parent, again.depth = before.model_id, before.parent, before.depth
    take(again, verdict, held)
    # A no, or somebody's answer, ends the call that was asked about, even where the tool is another one by now.
    stack = parts.stack_for(again) if same else parts.stack_of(before.listing, again)
    outcome = await stack(again)
    if not isinstance(outcome, Pending) and held.outcome is None:
        parts.waits.finish(again, outcome)
    return outcome


async def _through_inner(scope: Scope, held: Held, verdict: Verdict) -> Outcome:
    """The call waits for another one: the answer is meant for that."""
    assert held.inner is not None
    outcome = await _answer(scope, held.inner, verdict)
    return outcome if held.outcome is None and isinstance(outcome, Failed) else await _state(held)


async def _tell_followers(scope: Scope, held: Held) -> None:
    """Calls that wait for this one end as it does."""
    if held.outcome is None or isinstance(held.outcome, Pending):
        return
    followers, held.followers = held.followers, []
    for call_id in followers:
        outer = held.invocation.scope.parts.waits.find(call_id, held.principal)
        if outer is not None and outer.wait is not None:
            outer.inner = None
            await _act(scope, outer, outer.wait, Verdict("settle", value=held.outcome.evolve()))


async def _state(held: Held) -> Outcome:
    if held.resuming is not None:
        return await _result_of(held.resuming)
    if held.outcome is not None:
        return held.outcome.apart() if isinstance(held.outcome, Done) else held.outcome
    return held.wait.pending() if held.wait else _unknown(held.invocation.id)


def _too_late(held: Held) -> Failed:
    if isinstance(held.outcome, Failed) and held.outcome.code == "expired":
        return Failed("expired", held.outcome.message)
    return Failed("conflict", f"Call {held.invocation.id} was answered otherwise already.")


def _unknown(call_id: str) -> Failed:
    return Failed("not_found", f"No call {call_id[:80]} is waiting.")


def _tell(scope: Scope, wait: WaitingCall, verdict: Verdict) -> None:
    parts = scope.parts
    if parts.listeners.heard:
        always = bool(verdict.approval and verdict.approval.always)
        parts.listeners.emit(
            CallSettled(
                wait.call_id, wait.tool, verdict.answer, wait.waiting_for, verdict.by, always, verdict.reason,
                parts.clock.time(),
            )
        )  # fmt: skip
