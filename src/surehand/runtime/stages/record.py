"""Record: the outermost stage. Every call ends in the statistics, the journal and the ears of listeners once."""

from __future__ import annotations

import asyncio
from time import perf_counter

from surehand.core.errors import NotStarted
from surehand.core.events import CallEnded, CallResumed, CallStarted
from surehand.core.invoke import crashed, failed
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.store.errors import StoreError

_make = tuple.__new__
"""Makes an event in half the time that its own constructor takes; a heard call makes two."""


def record(plan: Plan, proceed: Proceed) -> Proceed:
    """Count, time and tell; and turn the runtime's own interruptions into outcomes."""
    parts, listing = plan.parts, plan.listing
    name, listeners, journal = listing.name, parts.listeners, parts.journal
    counter, waits, again = parts.counter(name), plan.suspends, plan.recallable
    display, now = listing.tool.face.display, parts.clock.time
    logbook = parts.logbook
    attach = object.__setattr__  # what `outcome.attach` does, without the call

    async def stage(invocation: Invocation) -> Outcome:
        invocation.listing = listing
        invocation.started = started = perf_counter()
        if listeners.heard:
            tell_start(invocation)
        outcome: Outcome | None = None
        try:
            if waits and invocation.timeout is not None:
                invocation.limit()
            outcome = await proceed(invocation)
        except asyncio.CancelledError:
            if not (waits and invocation.uncancelled()):
                outcome = Failed("cancelled", f"{name} was cancelled with its caller.", executed=invocation.began)
                raise
            outcome = invocation.interruption()
        except NotStarted as refusal:
            outcome = failed(refusal)
        except StoreError as problem:
            outcome = Failed("unavailable", f"{name}: {problem}", executed=invocation.began)
        except Exception as bug:  # noqa: BLE001 - ours, not the handler's: the caller still gets an outcome
            outcome = crashed(name, bug, redact=parts.redact, details=parts.crash_details)
        finally:
            if outcome is None:  # the interpreter is stopping, or the loop is gone
                parts.running.discard(invocation)
            else:
                invocation.latency = latency = perf_counter() - started
                counter.seconds += latency
                if not again or not invocation.resumed:
                    counter.count += 1
                if type(outcome) is not Done and not isinstance(outcome, Pending):
                    counter.failures += 1
                attach(outcome, "origin", invocation)
                if waits and invocation.task is not None:
                    invocation.leave(outcome)
                if journal is not None or listeners.heard or logbook is not None:
                    tell_end(invocation, outcome)
        return outcome

    def tell_end(invocation: Invocation, outcome: Outcome) -> None:
        call_id = invocation.known_id or invocation.id
        if journal is not None:
            status = "ok" if outcome.ok else _status(outcome)
            journal.append((call_id, name, invocation.started, invocation.latency, status))
        waits_on = isinstance(outcome, Pending) or (invocation.round and not invocation.closed)
        if logbook is not None and not invocation.journalled and not waits_on:
            logbook.add(parts.entry(invocation, "ended", "ok" if outcome.ok else _status(outcome)))
        unheard = invocation.lost and invocation.resumed  # another answer was first, and that one's end is told
        if listeners.heard and parts.auto_complete and not unheard:
            listeners.emit(_make(CallEnded, (call_id, name, outcome, now())))

    def tell_start(invocation: Invocation) -> None:
        if again and invocation.resumed:
            if invocation.on_settled is None:  # else it is told once the answer is written
                listeners.emit(CallResumed(invocation.id, name, now()))
        else:
            about = (invocation.known_id or invocation.id, name, invocation.raw, invocation.parent, display, now())
            listeners.emit(_make(CallStarted, about))

    return stage


def _status(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "pending"
