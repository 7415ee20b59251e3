"""Waits: calls that wait for a person, a browser or a webhook, and what became of them."""

from __future__ import annotations

import asyncio
import json
from math import inf
from typing import TYPE_CHECKING, Any, cast

from surehand.core.call import Principal
from surehand.core.clock import Timer, wake
from surehand.core.events import CallPending
from surehand.core.outcome import Outcome, Pending, Wait
from surehand.core.quotas import Quota
from surehand.runtime.invocation import Invocation
from surehand.runtime.known import known
from surehand.runtime.plain import plain_arguments, plain_of
from surehand.runtime.verdict import Going
from surehand.runtime.waiting import WaitingCall as WaitingCall
from surehand.store import ledger as rows
from surehand.store.database import StoreUnavailable, Unexpected, Unstorable
from surehand.store.ledger import Known
from surehand.store.outcomes import json_text
from surehand.store.pending import GRACE, Held, Round, asked

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store


class Crowded(Exception):
    """A user has as many calls that wait as it may have."""


class Waits:
    """The waits of a runtime. The store keeps them; here is only what lives as long as the process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.here: dict[str, Invocation] = {}
        """Calls that wait and were made here, by id: their scope may offer what no store can keep."""
        self.live: dict[str, asyncio.Future[bool | None]] = {}
        """Callers who wait for the answer themselves."""
        self.going: dict[str, Going] = {}
        self.quota: Quota[str] | None = None
        """How many of them each user may have, where that is bounded."""
        self.open = 0
        """How many waits are open, as far as this runtime knows."""
        self._alarm: Timer | None = None
        self._alarm_at = inf

    async def find(self, call_id: str, viewer: Principal) -> Held | None:
        """A call that the viewer may know of; to a stranger it looks like an unknown id."""
        if (store := self._parts.store) is None:
            return None
        try:
            return await store.pending.find(call_id, viewer.user, viewer.session)
        except Unstorable:  # nothing was ever kept under such a name
            return None

    async def outcome_of(self, call_id: str, viewer: Principal) -> Outcome | None:
        """How a call that waited has ended, if the viewer may know of it."""
        held = await self.find(call_id, viewer) if call_id else None
        return self._parts.ledger.said(held.call) if held and held.call.state == "ended" else None

    async def state_of(self, call_id: str, viewer: Principal) -> Outcome | None:
        """The outcome of a call that has waited, or what it waits for."""
        held = await self.find(call_id, viewer)
        return None if held is None else self.state(held)

    def state(self, held: Held) -> Outcome:
        """The same, of a call that was read already."""
        call, wait = held.call, held.wait
        if call.state in ("ended", "unknown"):
            return self._parts.ledger.said(call)
        if wait is not None and call.call_id not in self.going:
            return shown(held, wait).pending()
        return Pending("result", call.call_id, f"{call.tool} was answered and goes on.")

    async def listed(self, viewer: Principal, grace: float = GRACE) -> list[WaitingCall]:
        """The open waits of the viewer, and calls of theirs that were answered and that nobody goes on with."""
        if (store := self._parts.store) is None:
            return []
        try:
            found = await store.pending.listed(viewer.user, viewer.session, grace=grace)
        except Unstorable:  # nothing was ever kept under such a name
            return []
        return [shown(each, each.rounds[-1]) for each in found if each.call.call_id not in self.going]

    async def park(self, invocation: Invocation, pending: Pending) -> WaitingCall | Outcome:
        """Keep a pending call: the wait, or what became of the call where somebody else was first."""
        if invocation.elsewhere and pending.call_id == invocation.id:
            return pending  # it is only told that the same call runs already
        store, call_id = await self._parts.remembered(), invocation.id
        inner = await self._to_follow(pending.call_id, invocation)
        message = pending.message or f"{invocation.listing.name} waits for {pending.waiting_for}."
        expires_at = None if inner else pending.expires_at
        patience = None if inner else self._parts.defaults.pending_ttl or None
        call, request, note = self._to_keep(invocation), json_text(pending.request), json_text(pending.state)
        size = len(call.arguments) + len(request) + len(note)
        if self.quota is not None and call_id not in self.quota and not self.quota.has_room(call.user_id, size):
            raise Crowded
        wait = asked(
            call, pending.waiting_for, message, request=request, note=note,
            inner=inner, expires_at=expires_at, patience=patience,
        )  # fmt: skip
        told = [*self._told(store, invocation, pending), *self._parts.shown.statements(invocation, pending)]
        steps = [rows.waiting(call), wait, *told]
        try:
            results = await store.write(steps)
        except Unexpected:
            return await self.state_of(call_id, Principal()) or pending
        except (asyncio.CancelledError, StoreUnavailable):
            if call.owner is not None:  # its handler has run: nobody else can say that it waits
                self._parts.ledger.unwritten.keep(call_id, steps)
            raise
        if self.quota is not None:
            self.quota.acquire(call_id, call.user_id, size)
        [asked_at] = results[1]
        return self._parked(invocation, pending, message, **asked_at)

    def _to_keep(self, invocation: Invocation) -> Known:
        """What the id stands for never changes, whatever a person or the handler made of the arguments."""
        fence, before = invocation.fence, invocation.known
        call = known(invocation, owner=None if fence is None else self._parts.owner, fence=fence or 0)
        if before is None:
            return call
        asked_with = before.arguments if invocation.began else call.arguments
        return call._replace(fingerprint=before.fingerprint, arguments=asked_with)

    def _parked(
        self,
        invocation: Invocation,
        pending: Pending,
        message: str,
        *,
        round: int,
        created_at: float,
        expires_at: float | None,
    ) -> WaitingCall:
        who, call_id = invocation.principal, invocation.id
        if not invocation.round:
            self.open += 1
        invocation.round, invocation.fence, invocation.claimed, invocation.claims = round, None, False, False
        self.here[call_id] = invocation
        self._parts.shown.written(invocation, pending)
        self.going.pop(call_id, None)  # it waits again, and can be answered again
        self.watch(expires_at)
        # Arguments may be many, and only who listens is shown them.
        arguments = plain_arguments(invocation) if self._parts.listeners.heard else {}
        wait = WaitingCall(
            call_id, invocation.listing.name, arguments, pending.waiting_for, message,
            pending.request, expires_at, created_at, who.user, who.session, round,
        )  # fmt: skip
        self._tell(wait)
        if invocation.on_end is not None:  # whoever answered last time need not wait for the next answer
            tell, invocation.on_end = invocation.on_end, None
            tell(wait.pending())
        return wait

    def _told(self, store: Store, invocation: Invocation, pending: Pending) -> list[Any]:
        if not self._parts.durable:
            return []
        name, user = invocation.listing.name, invocation.principal.user
        detail = {"waiting_for": pending.waiting_for}
        return [
            store.audit.row("wait", invocation.id, name, user=user, detail=detail),
            *self._parts.entry(invocation, "pending", pending.waiting_for),
        ]

    async def _to_follow(self, call_id: str, invocation: Invocation) -> str | None:
        """The call that this one waits for: one of its own user's, and none that waits for this one in turn."""
        held = await self.find(call_id, invocation.principal) if call_id else None
        first = held.call.call_id if held else None
        while held is not None:
            if held.call.call_id == invocation.id:
                return None
            inner = held.wait.inner_call if held.wait else None
            held = await self.find(inner, Principal()) if inner else None
        return first

    def watch(self, expires_at: float | None) -> None:
        """Wake the sweeper when the next wait has outlived its time."""
        if expires_at is None or expires_at >= self._alarm_at:
            return
        self.unwatch()
        self._alarm_at = expires_at
        delay = max(expires_at - self._parts.clock.time(), 0.0)
        self._alarm = self._parts.clock.call_later(delay, self._ring)

    def _ring(self) -> None:
        self.unwatch()
        self._parts.sweep()

    def unwatch(self) -> None:
        """Nothing wakes the sweeper any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, inf

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
        live = self.live[invocation.id] = invocation.live = asyncio.get_running_loop().create_future()
        timer = self._parts.clock.call_later(patience, wake, live) if patience < inf else None
        try:
            return bool(await live)
        finally:
            if timer is not None:
                timer.cancel()
            self.live.pop(invocation.id, None)
            invocation.live = None

    def rest(self, invocation: Invocation) -> None:
        """Its caller is told that it waits: what it goes on with is in the store, and need not be kept here too."""
        if self.here.get(invocation.id) is invocation:
            resting = self.here[invocation.id] = Invocation(invocation.scope, invocation.name, {})
            resting.listing, resting.known_id, resting.round = invocation.listing, invocation.id, invocation.round

    def over(self, invocation: Invocation) -> None:
        """The call has its outcome."""
        self.forget(invocation.id)
        if invocation.round:
            self.open -= 1

    def forget(self, call_id: str) -> Invocation | None:
        """It does not wait any more; the call, if it was made here."""
        if self.quota is not None:
            self.quota.release(call_id)
        return self.here.pop(call_id, None)


def shown(held: Held, wait: Round) -> WaitingCall:
    """A wait as the store keeps it, for people to read."""
    call, kind, message, until = held.call, wait.waiting_for, wait.message, wait.expires_at
    if held.is_ready:
        kind, until = "result", wait.ready_until
        message = f"{call.tool} was let run, and no runtime that has it has taken it up yet."
    return WaitingCall(
        call.call_id, call.tool, plain_of(call.arguments), cast(Wait, kind), message, json.loads(wait.request),
        until, wait.created_at, call.user_id, call.session, wait.round,
    )  # fmt: skip
