"""Standing: how a call stands that is remembered under its id."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.plain import plain_of
from surehand.runtime.waits import shown
from surehand.store import ledger as rows
from surehand.store import pending
from surehand.store.database import StoreError, Unexpected, Unstorable
from surehand.store.ledger import State
from surehand.store.outcomes import outcome_text

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.runtime.waiting import WaitingCall
    from surehand.store.ledger import Known
    from surehand.store.pending import Held, Round

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class Standing:
    """A call that is remembered: what came of it, or what it waits for."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome | None
    """None while it runs, or is about to."""
    round: int
    """Which of its questions is open; 0 if none is. Those of a call that it waits for count on from its own."""
    created_at: float
    changed_at: float
    """When it last began to wait, was answered, or ended."""
    state: State
    """The ledger's own word."""
    noted: str = ""
    """What is known of an answer to the open question that is not whole yet, as whoever collects it wrote it down."""
    user: str | None = None
    """For whom it was made."""
    asked: WaitingCall | None = None
    """The open question, which is that of another call where this one waits for that."""


async def standing(parts: Parts, call_id: str, viewer: Principal) -> Standing | None:
    """How a call stands, for those who may know of it: to a stranger it looks like an unknown id."""
    if parts.store is None:
        return None
    if (held := await parts.waits.find(call_id, viewer)) is not None:
        return await _of_wait(parts, held, viewer)
    try:
        call = await parts.ledger.find(call_id)
    except Unstorable:  # nothing was ever kept under such a name
        return None
    if call is None or not _may_see(call, viewer):
        return None
    return _made(parts, call, call.created_at)


async def _of_wait(parts: Parts, held: Held, viewer: Principal) -> Standing:
    last, open_ = held.rounds[-1], await _open(parts, held, viewer)
    made = _made(parts, held.call, last.answered_at or last.created_at)
    if open_ is None or made.outcome is not None:
        return made
    asked = shown(open_.held, open_.wait)
    outcome = asked.pending().evolve(call_id=made.call_id)
    return replace(made, outcome=outcome, round=open_.number, noted=open_.wait.value or "", asked=asked)


class _Open(NamedTuple):
    held: Held
    wait: Round
    number: int


async def _open(parts: Parts, held: Held, viewer: Principal) -> _Open | None:
    """The open question of a call, or of the one that it waits for in the end; None if that goes on."""
    number = 1
    while held.wait is not None and held.call.call_id not in parts.waits.going:
        number += held.wait.round - 1
        inner = held.wait.inner_call
        found = None if inner is None else await parts.waits.find(inner, viewer)
        if found is None:
            return _Open(held, held.wait, number)
        held = found
    return None


def _made(parts: Parts, call: Known, changed: float) -> Standing:
    outcome: Outcome | None = None
    if call.state in ("ended", "unknown"):
        outcome, changed = parts.ledger.said(call), call.ended_at or changed
    return Standing(
        call.call_id, call.tool, plain_of(call.arguments), outcome, 0, call.created_at, changed, call.state,
        user=call.user_id,
    )  # fmt: skip


def _may_see(call: Known, viewer: Principal) -> bool:
    return viewer.user in (None, call.user_id) and (viewer.session is None or call.session in (None, viewer.session))


async def note(parts: Parts, standing: Standing, noted: str) -> bool:
    """Write down what is known of an answer; false if somebody else has since the call was looked at."""
    if (asked := standing.asked) is None:
        return False
    store = await parts.remembered()
    try:
        await store.write([pending.noted(asked.call_id, asked.round, noted, before=standing.noted)])
    except Unexpected:
        return False
    return True


async def conclude(parts: Parts, call_id: str, outcome: Failed) -> None:
    """Write how a call under an id of its own came to nothing, which the ledger leaves open for another try."""
    try:
        store = await parts.remembered()
        slim = () if parts.durable else (rows.slimmed(call_id),)
        await store.write([rows.ended_unclaimed(call_id, outcome_text(outcome)), *slim])
    except Unexpected:
        return  # it was never remembered, or its end is written already
    except StoreError as error:
        log.warning("How call %s ended could not be written down: %s", call_id, error)


async def is_at_work(parts: Parts, owner: str) -> bool:
    """Whether a runtime is at work: this one, or another on the same store."""
    if owner == parts.owner:
        return parts.open
    if not parts.durable or not owner:
        return False
    store = await parts.remembered()
    return await store.owners.is_at_work(owner)
