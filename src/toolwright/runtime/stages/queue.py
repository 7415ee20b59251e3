"""Queue: wait for a slot, first come, first served. Waiting is not running, so no deadline counts here."""

from __future__ import annotations

import asyncio
from time import perf_counter

from toolwright.core.events import CallQueued
from toolwright.core.outcome import Outcome
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed
from toolwright.runtime.queues import Line, Slot, held_in, hold, let_go

UNQUEUED = frozenset({"internal", "agent", "client", "external", "hosted"})
"""Kinds that never hold a slot: they wait for others, and could wait for themselves."""


def queue(plan: Plan, proceed: Proceed) -> Proceed:
    """None unless the tool, its provider or the default limit names one."""
    line = None if plan.listing.kind in UNQUEUED else plan.parts.line_of(plan.listing)
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
                await granted
            except asyncio.CancelledError:
                line.give_up(granted)
                raise
            invocation.queued += perf_counter() - began
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
            if line.paced:
                await line.enter_inside()
            token = hold(line)
            try:
                return await proceed(invocation)
            finally:
                let_go(token)

    return stage


def _stand_in(invocation: Invocation, line: Line) -> asyncio.Future[None]:
    parts = invocation.scope.parts
    if parts.listeners.heard:
        parts.listeners.emit(
            CallQueued(invocation.id, invocation.listing.name, line.name, line.depth + 1, parts.clock.time())
        )
    invocation.suspend()
    return line.join()
