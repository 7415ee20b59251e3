"""Waits: calls that wait for a person, a browser or a webhook, and what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolwright.core.call import Arguments, Principal
from toolwright.core.canonical import digest
from toolwright.core.clock import Timer, wake
from toolwright.core.errors import Code
from toolwright.core.events import CallPending
from toolwright.core.outcome import Done, Failed, Outcome, Pending, Wait
from toolwright.runtime.approval import Approval
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.plain import fingerprint, plain, plain_arguments

if TYPE_CHECKING:
    from toolwright.runtime.parts import Parts

Answer: TypeAlias = Literal["approve", "reject", "settle", "cancel", "expire"]
KEPT = 10_000
"""Ended waits that are still remembered, so that a repeated answer gets the stored outcome."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """An open wait, as a person is shown it."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    waiting_for: Wait
    message: str
    request: Any
    expires_at: float | None
    created_at: float = 0.0
    user: str | None = None
    session: str | None = None
    round: int = 1

    def pending(self) -> Pending:
        """The same as an outcome."""
        return Pending(self.waiting_for, self.call_id, self.message, self.request, self.expires_at)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer to a wait."""

    answer: Answer
    value: Done | Failed | None = None
    approval: Approval | None = None
    by: str | None = None
    code: Code = "rejected"
    reason: str = ""

    def same_as(self, other: Verdict) -> bool:
        """Whether giving it again changes nothing."""
        return self.answer == other.answer and digest(self._weight()) == digest(other._weight())

    def _weight(self) -> Any:
        if self.answer == "approve":
            return self.approval.arguments if self.approval else None
        match self.value:
            case Done(data):
                return ["done", data]
            case Failed(code, message):
                return ["failed", code, message]
        return None


@dataclass(slots=True)
class Held:
    """A call that has waited at least once."""

    invocation: Invocation
    """The latest pass through the pipeline."""
    definition: str
    arguments: Mapping[str, Any]
    """What people are shown."""
    stored: Arguments
    """What the call runs with when it goes on."""
    wait: WaitingCall | None = None
    outcome: Outcome | None = None
    note: Any = None
    approval: Approval | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    resuming: asyncio.Task[Outcome] | None = None
    """Set while an answer is being acted on."""
    live: asyncio.Future[Verdict | None] | None = None
    """A caller who waits for the answer itself."""
    inner: str | None = None
    """The call that this one waits for."""
    followers: list[str] = field(default_factory=list)
    """The calls that wait for this one."""
    timer: Timer | None = None

    @property
    def principal(self) -> Principal:
        return self.invocation.principal

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Waits:
    """Every call that waits, by id."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._held: dict[str, Held] = {}
        self._ended: dict[str, None] = {}

    def find(self, call_id: str, viewer: Principal) -> Held | None:
        """A call that the viewer may know of; to a stranger it looks like an unknown id."""
        held = self._held.get(call_id)
        if held is None or (viewer.user is not None and viewer.user != held.principal.user):
            return None
        if viewer.session is not None and held.principal.session not in (None, viewer.session):
            return None
        return held

    def open_wait(self, call_id: str) -> WaitingCall | None:
        """The open wait of a call."""
        held = self._held.get(call_id)
        if held is None or held.wait is None or held.resuming is None:
            return held.wait if held else None
        return replace(
            held.wait, waiting_for="result", message=f"{held.wait.tool} was answered and goes on.", request=None
        )

    def outcome_of(self, call_id: str | None, viewer: Principal) -> Outcome | None:
        """How a call that waited has ended, if the viewer may know of it."""
        held = self.find(call_id, viewer) if call_id else None
        return held.outcome.evolve() if held and held.outcome is not None else None

    def open_to(self, call_id: str, viewer: Principal) -> list[WaitingCall]:
        """The open wait of one call, even if it waits for another call, where the viewer may end it."""
        held = self.find(call_id, viewer)
        return [held.wait] if held and held.wait and held.resuming is None else []

    def listed(self, viewer: Principal) -> list[WaitingCall]:
        """The open waits that the viewer may answer, oldest first."""
        found = [self.find(call_id, viewer) for call_id in self._held]
        return [held.wait for held in found if held and held.wait and held.inner is None and held.resuming is None]

    def park(self, invocation: Invocation, pending: Pending) -> WaitingCall | None:
        """Keep a pending call; None if it is only told that the same call runs elsewhere."""
        if pending.call_id == invocation.id:
            return None
        held = self._held.get(invocation.id) or self._begin(invocation)
        held.invocation, held.note = invocation, pending.state
        invocation.round += 1
        inner = self._to_follow(pending.call_id, invocation)
        if inner is not None:
            held.inner = inner.invocation.id
            inner.followers.append(invocation.id)
        held.wait = self._waiting(invocation, pending, held)
        held.resuming = None  # it waits again, and can be answered again
        self.watch_expiry(held)
        self._tell(held.wait)
        if invocation.on_end is not None:  # whoever answered last time need not wait for the next answer
            tell, invocation.on_end = invocation.on_end, None
            tell(held.wait.pending())
        return held.wait

    def _to_follow(self, call_id: str | None, invocation: Invocation) -> Held | None:
        """The call that this one waits for: one of its own user's, and none that waits for this one in turn."""
        first = held = self.find(call_id, invocation.principal) if call_id else None
        while held is not None:
            if held.invocation.id == invocation.id:
                return None
            held = self._held.get(held.inner) if held.inner else None
        return first

    def abandoned(self, invocation: Invocation, wait: WaitingCall) -> None:
        """Its caller left after the answer was used: the answer cannot be used again, so that is how the call ends."""
        held = self._held.get(invocation.id)
        if held is not None and held.wait is wait and invocation.answer is None and invocation.waited_for is not None:
            message = f"{invocation.tool_name} was cancelled while it ran."
            self.finish(invocation, Failed("cancelled", message, executed=True))

    def _begin(self, invocation: Invocation) -> Held:
        self._parts.ledger.opened(invocation.id, fingerprint(invocation))
        stored = deepcopy(invocation.raw)  # what runs later is what was asked for now, bytes and all
        held = Held(invocation, invocation.listing.tool.definition, plain_arguments(invocation), stored)
        self._held[invocation.id] = held
        return held

    def _waiting(self, invocation: Invocation, pending: Pending, held: Held) -> WaitingCall:
        now, ttl, who = self._parts.clock.time(), self._parts.defaults.pending_ttl, invocation.principal
        expires_at = pending.expires_at if pending.expires_at is not None else now + ttl if ttl else None
        message = pending.message or f"{invocation.listing.name} waits for {pending.waiting_for}."
        return WaitingCall(
            invocation.id, invocation.listing.name, plain(held.arguments), pending.waiting_for, message,
            pending.request, expires_at, now, who.user, who.session, invocation.round,
        )  # fmt: skip

    def watch_expiry(self, held: Held) -> None:
        """End the wait when its time is up."""
        held.stop_timer()
        if held.wait and held.wait.expires_at is not None and held.inner is None:
            delay = held.wait.expires_at - self._parts.clock.time()
            held.timer = self._parts.clock.call_later(max(delay, 0.0), self._parts.expire, held.wait.call_id)

    def _tell(self, wait: WaitingCall) -> None:
        if self._parts.listeners.heard:
            self._parts.listeners.emit(
                CallPending(
                    wait.call_id, wait.tool, wait.waiting_for, wait.message, wait.request, wait.arguments,
                    wait.expires_at, wait.created_at,
                )
            )  # fmt: skip

    async def answered(self, invocation: Invocation, patience: float) -> bool:
        """Wait with the caller for the answer; false when its patience ends first, and the wait stays open."""
        invocation.suspend()
        held = self._held[invocation.id]
        live = held.live = invocation.live = asyncio.get_running_loop().create_future()
        timer = self._parts.clock.call_later(patience, wake, live) if patience < inf else None
        try:
            verdict = await live
        finally:
            if timer is not None:
                timer.cancel()
            held.live = invocation.live = None
        if verdict is None:
            return False
        take(invocation, verdict, held)
        return True

    def finish(self, invocation: Invocation, outcome: Outcome) -> None:
        """The call has its outcome; it never changes again."""
        if (held := self._held.get(invocation.id)) is None:
            return
        held.stop_timer()
        self._parts.ledger.close(invocation.id, outcome)
        held.wait, held.outcome = None, outcome.apart() if isinstance(outcome, Done) else outcome
        self._ended[invocation.id] = None
        while len(self._ended) > KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._held[oldest]

    def __len__(self) -> int:
        return sum(held.wait is not None for held in self._held.values())

    def close(self) -> None:
        """Nothing expires any more."""
        for held in self._held.values():
            held.stop_timer()


def take(invocation: Invocation, verdict: Verdict, held: Held) -> None:
    """Let a call go on with the answer it waited for."""
    invocation.state_note = held.note
    if verdict.approval is not None:
        held.approval = invocation.approval = verdict.approval
        return
    invocation.approval = held.approval
    invocation.answer = verdict.value
    invocation.waited_for = held.wait.waiting_for if held.wait else None
