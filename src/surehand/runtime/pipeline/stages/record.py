"""Stage `record`, the outermost: statistics, journal and events of every call, exactly once."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from surehand.core.client import ClientHandler
from surehand.core.errors import NotStarted
from surehand.core.events import CallEnded, CallResumed, CallStarted
from surehand.core.invoke import failed_from_crash, failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.invocation.foreign_code import is_interruption
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pipeline.pipeline import NextStage, StackPlan
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from surehand.runtime.durability.journal_writer import JournalWriter

AUDITED_REFUSALS = frozenset({"denied", "rejected", "conflict", "limit_exceeded", "over_budget"})
"""Codes of calls that were refused before their handler ran, which the audit records."""
_new_tuple = tuple.__new__
"""Builds an event in half the time of its constructor; a call with listeners needs two."""


def record(plan: StackPlan, proceed: NextStage) -> NextStage:
    """Count, time and report calls; turn interruptions by the runtime, and its own bugs, into outcomes."""
    services = plan.services
    listing = plan.listing
    name = listing.name
    intent = listing.tool.presentation.intent
    display = listing.tool.presentation.display
    listeners = services.listeners
    journal = services.memory_journal
    journal_writer = services.journal_writer
    counter = services.tool_stats(name)
    now = services.clock.time
    may_suspend = plan.may_suspend
    is_recallable = plan.is_recallable
    defers_start = _waits_at_once(plan)
    set_attribute = object.__setattr__  # `attach_origin` without the function call

    async def stage(invocation: Invocation) -> Outcome:
        invocation.listing = listing
        started = perf_counter()
        invocation.started_perf_counter = started
        if listeners.callbacks:
            if defers_start and not invocation.is_resumed:
                invocation.deferred_start = partial(emit_start, invocation, now())
            else:
                emit_start(invocation, now())
        outcome: Outcome | None = None
        try:
            if may_suspend and invocation.caller_timeout is not None:
                invocation.start_caller_timeout()
            outcome = await proceed(invocation)
        except asyncio.CancelledError as cancellation:
            if may_suspend and invocation.take_back_cancellation():
                outcome = invocation.take_interruption()
            elif is_interruption(cancellation, asyncio.current_task()):
                outcome = Failed(
                    "cancelled", f"{name} was cancelled with its caller.", executed=invocation.may_have_run
                )
                raise
            else:
                outcome = Failed("cancelled", f"{name} cancelled itself.", executed=invocation.may_have_run)
        except NotStarted as refusal:
            outcome = failed_from_error(refusal)
        except StoreError as problem:
            outcome = Failed("unavailable", f"{name}: {problem}", executed=invocation.may_have_run)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as bug:  # noqa: BLE001 - a bug of this package: the caller still gets an outcome
            outcome = failed_from_crash(name, bug, redact=services.redact, crash_details=services.crash_details)
        finally:
            if outcome is None:  # the interpreter is shutting down, or the event loop was closed
                services.running_calls.discard(invocation)
            else:
                latency = perf_counter() - started
                invocation.latency_seconds = latency
                counter.seconds += latency
                if not is_recallable or not invocation.is_resumed:
                    counter.count += 1
                if type(outcome) is not Done and not isinstance(outcome, Pending):
                    counter.failures += 1
                set_attribute(outcome, "origin", invocation)
                if may_suspend and invocation.task is not None:
                    invocation.finish(outcome)
                if journal is not None or listeners.callbacks or journal_writer is not None:
                    report_end(invocation, outcome)
        return outcome

    def report_end(invocation: Invocation, outcome: Outcome) -> None:
        """Write the journals and emit `CallEnded`."""
        call_id = invocation.assigned_id or invocation.id
        if defers_start:
            invocation.emit_deferred_start()
        if journal is not None:
            status = "ok" if outcome.ok else _status_word(outcome)
            journal.append((call_id, name, invocation.started_perf_counter, invocation.latency_seconds, status))
        if journal_writer is not None and not invocation.is_journalled:
            write_journal(journal_writer, invocation, outcome)
        if listeners.callbacks and services.auto_complete:
            if invocation.has_lost_race and invocation.is_resumed:
                return  # of two answers to one call, only the first emits the end
            tool_fields = (call_id, name, outcome, now(), invocation.parent, invocation.model_id, intent, display)
            # Adding two tuples takes half the time of unpacking one into the other.
            listeners.emit(_new_tuple(CallEnded, tool_fields + invocation.scope.caller_fields))

    def write_journal(writer: JournalWriter, invocation: Invocation, outcome: Outcome) -> None:
        """Add the end of a call to the store's journal; a call that is still pending has its entry already."""
        if isinstance(outcome, Pending) or (invocation.round and not invocation.is_outcome_recorded):
            return
        status = "ok" if outcome.ok else _status_word(outcome)
        writer.add(services.journal_statements(invocation, "ended", status))
        if isinstance(outcome, Failed) and not outcome.executed and outcome.code in AUDITED_REFUSALS:
            writer.add_refusal(invocation, outcome)

    def emit_start(invocation: Invocation, at: float) -> None:
        """Emit `CallStarted`, or `CallResumed` for a resumed call."""
        if is_recallable and invocation.is_resumed:
            if invocation.on_settled is None:  # else it is emitted once the answer is stored
                listeners.emit(CallResumed(invocation.id, name, at, *invocation.identity))
        else:
            tool_fields = (
                invocation.assigned_id or invocation.id,
                name,
                invocation.raw_arguments,
                invocation.parent,
                display,
                at,
                invocation.model_id,
                intent,
            )
            listeners.emit(_new_tuple(CallStarted, tool_fields + invocation.scope.caller_fields))

    return stage


def _waits_at_once(plan: StackPlan) -> bool:
    """Whether calls wait for a client before anything else happens.

    Their `CallStarted` is emitted once the wait is stored: a client may answer that event, and the answer must count.
    """
    tool = plan.listing.tool
    if not isinstance(tool.handler, ClientHandler) or not tool.handler.waits:
        return False
    rules = plan.services.policy.rules_for(plan.listing)
    never_asks = tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules)
    return never_asks and tool.limits.queue is None


def _status_word(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "pending"
