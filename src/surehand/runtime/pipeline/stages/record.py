"""Stage `record`, the outermost: statistics, journal and events of every call, exactly once."""

from __future__ import annotations

import asyncio
from time import perf_counter

from surehand.core.client import ClientHandler
from surehand.core.errors import NotStarted
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.invocation.foreign_code import is_interruption
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.running_calls import RunningCalls
from surehand.store.errors import StoreError


def record(
    plan: StackPlan, proceed: NextStage, *, reports: CallReports, running: RunningCalls, crash_report: CrashReport
) -> NextStage:
    """Count, time and report calls; turn interruptions by the runtime, and its own bugs, into outcomes."""
    listing = plan.listing
    name = listing.name
    listeners = reports.listeners
    has_journal = reports.has_journal
    presentation = listing.tool.presentation
    holds_start = _waits_at_once(plan)
    tool_reports = reports.for_tool(name, presentation.intent, presentation.display, holds_start=holds_start)
    counter = reports.stats.of_tool(name)
    now = reports.clock.time
    may_suspend = plan.may_suspend
    is_recallable = plan.is_recallable
    set_attribute = object.__setattr__  # `attach_origin` without the function call

    async def stage(invocation: Invocation) -> Outcome:
        invocation.listing = listing
        started = perf_counter()
        invocation.started_perf_counter = started
        if listeners.callbacks:
            tool_reports.start(invocation, now())
        outcome: Outcome | None = None
        try:
            if may_suspend and invocation.request.timeout is not None:
                invocation.start_caller_timeout()
            outcome = await proceed(invocation)
        except asyncio.CancelledError as cancellation:
            outcome = invocation.interruption_outcome()
            executed = invocation.may_have_executed
            if outcome is None and is_interruption(cancellation, asyncio.current_task()):
                outcome = Failed("cancelled", f"{name} was cancelled with its caller.", executed=executed)
                raise
            if outcome is None:
                outcome = Failed("cancelled", f"{name} cancelled itself.", executed=executed)
        except NotStarted as refusal:
            outcome = failed_from_error(refusal)
        except StoreError as problem:
            invocation.note_outcome_source("store failure")
            outcome = Failed("unavailable", f"{name}: {problem}", executed=invocation.may_have_executed)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as bug:  # noqa: BLE001 - a bug of this package: the caller still gets an outcome
            outcome = crash_report.failure(name, bug)
        finally:
            if outcome is None:  # the interpreter is shutting down, or the event loop was closed
                running.calls.discard(invocation)
            else:
                latency = perf_counter() - started
                invocation.latency_seconds = latency
                counter.seconds += latency
                if not is_recallable or not invocation.is_resumed:
                    counter.count += 1
                if type(outcome) is not Done and not isinstance(outcome, Pending):
                    counter.failures += 1
                set_attribute(outcome, "origin", invocation)
                if may_suspend and invocation.interruption is not None:
                    invocation.finish(outcome)
                if holds_start:  # it may have ended before a wait was stored
                    listeners.release(invocation)
                if has_journal or listeners.callbacks:
                    tool_reports.end(invocation, outcome)
        return outcome

    return stage


def _waits_at_once(plan: StackPlan) -> bool:
    """Whether calls wait for a client before anything else happens.

    Their `CallStarted` is emitted once the wait is stored: a client may answer that event, and the answer must count.
    """
    tool = plan.listing.tool
    if not isinstance(tool.handler, ClientHandler) or not tool.handler.waits:
        return False
    never_asks = tool.safety.confirm is False and all(rule.decision == "allow" for rule in plan.rules)
    return never_asks and tool.limits.queue is None
