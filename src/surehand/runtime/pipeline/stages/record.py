"""Record: the outermost stage. Every call ends in the statistics, the journal and the ears of listeners once."""

from __future__ import annotations

import asyncio
from time import perf_counter

from surehand.core.errors import NotStarted
from surehand.core.events import CallEnded, CallResumed, CallStarted
from surehand.core.invoke import failed_from_crash, failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.store.errors import StoreError

_new_tuple = tuple.__new__
"""Makes an event in half the time that its own constructor takes; a heard call makes two."""


def record(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Count, time and tell; and turn the runtime's own interruptions into outcomes."""
    parts, listing = plan.services, plan.listing
    name, listeners, journal = listing.name, parts.listeners, parts.memory_journal
    counter, waits, again = parts.tool_stats(name), plan.may_suspend, plan.is_recallable
    display, now = listing.tool.presentation.display, parts.clock.time
    logbook = parts.journal_writer
    attach = object.__setattr__  # what `outcome.attach` does, without the call

    async def stage(invocation: Invocation) -> Outcome:
        invocation.listing = listing
        invocation.started_perf_counter = started = perf_counter()
        if listeners.callbacks:
            tell_start(invocation)
        outcome: Outcome | None = None
        try:
            if waits and invocation.caller_timeout is not None:
                invocation.start_caller_timeout()
            outcome = await proceed(invocation)
        except asyncio.CancelledError:
            if not (waits and invocation.take_back_cancellation()):
                outcome = Failed(
                    "cancelled", f"{name} was cancelled with its caller.", executed=invocation.may_have_run
                )
                raise
            outcome = invocation.take_interruption()
        except NotStarted as refusal:
            outcome = failed_from_error(refusal)
        except StoreError as problem:
            outcome = Failed("unavailable", f"{name}: {problem}", executed=invocation.may_have_run)
        except Exception as bug:  # noqa: BLE001 - ours, not the handler's: the caller still gets an outcome
            outcome = failed_from_crash(name, bug, redact=parts.redact, crash_details=parts.crash_details)
        finally:
            if outcome is None:  # the interpreter is stopping, or the loop is gone
                parts.running_calls.discard(invocation)
            else:
                invocation.latency_seconds = latency = perf_counter() - started
                counter.seconds += latency
                if not again or not invocation.is_resumed:
                    counter.count += 1
                if type(outcome) is not Done and not isinstance(outcome, Pending):
                    counter.failures += 1
                attach(outcome, "origin", invocation)
                if waits and invocation.task is not None:
                    invocation.finish(outcome)
                if journal is not None or listeners.callbacks or logbook is not None:
                    tell_end(invocation, outcome)
        return outcome

    def tell_end(invocation: Invocation, outcome: Outcome) -> None:
        call_id = invocation.assigned_id or invocation.id
        if journal is not None:
            status = "ok" if outcome.ok else _status_word(outcome)
            journal.append((call_id, name, invocation.started_perf_counter, invocation.latency_seconds, status))
        waits_on = isinstance(outcome, Pending) or (invocation.round and not invocation.is_outcome_recorded)
        if logbook is not None and not invocation.is_journalled and not waits_on:
            logbook.add(parts.journal_statements(invocation, "ended", "ok" if outcome.ok else _status_word(outcome)))
        unheard = (
            invocation.has_lost_race and invocation.is_resumed
        )  # another answer was first, and that one's end is told
        if listeners.callbacks and parts.auto_complete and not unheard:
            listeners.emit(_new_tuple(CallEnded, (call_id, name, outcome, now())))

    def tell_start(invocation: Invocation) -> None:
        if again and invocation.is_resumed:
            if invocation.on_settled is None:  # else it is told once the answer is written
                listeners.emit(CallResumed(invocation.id, name, now()))
        else:
            about = (
                invocation.assigned_id or invocation.id,
                name,
                invocation.raw_arguments,
                invocation.parent,
                display,
                now(),
            )
            listeners.emit(_new_tuple(CallStarted, about))

    return stage


def _status_word(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "pending"
