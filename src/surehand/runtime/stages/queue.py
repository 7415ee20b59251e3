"""Queue: wait for a slot, first come, first served. Waiting is not running, so no deadline counts here."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from surehand.core.events import CallQueued
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.queues import AnyLine, Granted, Slot, held_in, hold, let_go
from surehand.store.errors import StoreError

UNQUEUED = frozenset({"internal", "agent", "client", "external", "hosted"})
"""Kinds that never hold a slot: they wait for others, and could wait for themselves."""


def queue(plan: Plan, proceed: Proceed) -> Proceed:
    """None unless the tool, its provider or the default limit names one."""
    line = None if plan.listing.kind in UNQUEUED else plan.parts.lines.of(plan.listing)
    if line is None:
        return proceed
    plan.suspends = True
    nests = plan.listing.tool.handler is None or plan.listing.tool.handler.suspends

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer is not None:
            return await proceed(invocation)
        if (slot := held_in(line)) is not None:
            return await _inside(invocation, slot)
        if not line.try_enter():
            began, granted = perf_counter(), _stand_in(invocation, line)
            try:
                error = await granted
            except asyncio.CancelledError:
                line.give_up(granted)
                raise
            invocation.queued += perf_counter() - began
            if error is not None:
                return _unreachable(invocation, line, error)
        if not nests:
            try:
                return await proceed(invocation)
            finally:
                line.leave()
        token = hold(line)
        try:
            return await proceed(invocation)
        finally:
            let_go(token)
            line.leave()

    async def _inside(invocation: Invocation, slot: Slot) -> Outcome:
        """A nested call runs in its ancestor's slot: taking another could wait for the ancestor itself."""
        invocation.suspend()
        async with slot.turn:
            if line.paced and (error := await line.enter_inside()) is not None:
                return _unreachable(invocation, line, error)
            token = hold(line)
            try:
                return await proceed(invocation)
            finally:
                let_go(token)

    return stage


def _stand_in(invocation: Invocation, line: AnyLine) -> Granted:
    tell = partial(_tell, invocation, line.name) if invocation.scope.parts.listeners.heard else None
    invocation.suspend()
    return line.join(tell)


def _tell(invocation: Invocation, queue: str, position: int) -> None:
    parts = invocation.scope.parts
    parts.listeners.emit(CallQueued(invocation.id, invocation.listing.name, queue, position, parts.clock.time()))


def _unreachable(invocation: Invocation, line: AnyLine, error: StoreError) -> Outcome:
    """The limit would not hold if the call ran all the same."""
    name = invocation.listing.name
    if not invocation.resumed or invocation.claimed or invocation.fence is None:
        return Failed("unavailable", f"{name} was not run, because its queue {line.name!r} cannot be reached: {error}")
    from surehand.store.ledger import put_back  # loaded by those alone who have a store

    parts, invocation.elsewhere = invocation.scope.parts, True  # somebody said yes, and that holds
    parts.ledger.unwritten.keep(invocation.id, [put_back(invocation.id, parts.owner, invocation.fence)])
    return Pending("result", invocation.id, f"{name} goes on when the store is back: {error}")
