"""Composition of what calls need: the stages, and the services of stored calls.

Importing this module loads the tables of the store; `Runtime` does it when the first call is made.
"""

from __future__ import annotations

from surehand.runtime.agent_inbox import AgentInbox
from surehand.runtime.call_loader import CallServices
from surehand.runtime.compose import RuntimeParts
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import StoredOutcomes
from surehand.runtime.durability.call_statements import CallStatements
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.pending.answers import Answers
from surehand.runtime.pending.cancelled_runs import CancelledRuns
from surehand.runtime.pending.confirmation import Confirmation
from surehand.runtime.pending.local_calls import ExpiryTimer, LocalPendingCalls
from surehand.runtime.pending.pending_call_writer import PendingCallWriter
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.restored_call import OpenScope, RestoredCalls
from surehand.runtime.pending.result import CallResults
from surehand.runtime.pending.resumption import Resumptions
from surehand.runtime.pending.status import CallStatuses
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.refused_calls import RefusedCalls
from surehand.runtime.pipeline.stages import bind_stages
from surehand.runtime.pipeline.stages.commit import CommittedResults


def compose_calls(parts: RuntimeParts, open_scope: OpenScope) -> CallServices:
    """The stages and the services of stored calls of one runtime."""
    options = parts.options
    defaults = options.defaults
    clock = options.clock
    store = parts.store
    running = parts.running
    background_tasks = parts.background_tasks
    crash_report = options.crash_report
    journal = parts.journal

    def expire_overdue_calls() -> None:
        if running.is_open:
            _ = background_tasks.spawn(answers.expire_overdue_calls())

    local = LocalPendingCalls(clock)
    expiry_timer = ExpiryTimer(clock, expire_overdue_calls)
    write_retry = WriteRetry(store)
    outcomes = StoredOutcomes(store, parts.outputs)
    repeated_calls = RepeatedCalls(store)
    messages = CallMessages(
        store,
        write_retry,
        shows_calls=store.is_durable and options.spaces is None,
        max_output=defaults.max_output,
    )
    ledger = Ledger(
        store,
        CallStatements(store, journal, messages),
        write_retry=write_retry,
        outcomes=outcomes,
        repeated_calls=repeated_calls,
        messages=messages,
        crash_report=crash_report,
        on_ended=local.on_call_ended,
        on_answer_recorded=local.on_answer_recorded,
    )
    pending_calls = PendingCalls(store, local, outcomes, parts.catalogue, parts.named_scopes)
    writer = PendingCallWriter(
        store,
        pending_calls,
        local,
        outcomes=outcomes,
        repeated_calls=repeated_calls,
        messages=messages,
        journal=journal,
        write_retry=write_retry,
        expiry_timer=expiry_timer,
        listeners=parts.listeners,
        call_ends=running.ends,
        default_time_to_live=defaults.pending_ttl,
    )
    restored_calls = RestoredCalls(local, parts.offered_tools, parts.named_scopes, open_scope)
    resumptions = Resumptions(
        store,
        pending_calls,
        local,
        restored_calls,
        ledger=ledger,
        outcomes=outcomes,
        write_retry=write_retry,
        running=running,
        background_tasks=background_tasks,
        listeners=parts.listeners,
    )
    cancelled_runs = CancelledRuns(store, resumptions, running)
    answers = Answers(
        store,
        pending_calls,
        resumptions,
        restored_calls,
        cancelled_runs,
        expiry_timer=expiry_timer,
        running=running,
    )
    statuses = CallStatuses(store, pending_calls, local, outcomes)
    reports = CallReports(
        parts.stats,
        parts.listeners,
        journal,
        clock,
        memory_journal=parts.memory_journal,
        auto_complete=options.auto_complete,
    )
    committed_results = CommittedResults(parts.last_results, options.on_commit, background_tasks)
    stages = bind_stages(
        active_spaces=parts.active_spaces,
        background_tasks=background_tasks,
        breakers=parts.breakers,
        catalogue=parts.catalogue,
        committed_results=committed_results,
        confirmation=Confirmation(background_tasks, clock, options.approver),
        crash_report=crash_report,
        deadlines=parts.deadlines,
        defaults=defaults,
        journal=journal,
        ledger_service=ledger,
        lifespans=parts.lifespans,
        local=local,
        messages=messages,
        middleware_table=parts.middleware,
        outcomes=outcomes,
        outputs=parts.outputs,
        pending_calls=pending_calls,
        queues=parts.queues,
        repeated_calls=repeated_calls,
        reports=reports,
        result_cache=parts.result_cache,
        resumptions=resumptions,
        running=running,
        store=store,
        wait_refusal=parts.wait_refusal,
        writer=writer,
    )
    return CallServices(
        stages=stages,
        refused_calls=RefusedCalls(reports, committed_results, parts.provider_table, parts.middleware, crash_report),
        answers=answers,
        pending_calls=pending_calls,
        local=local,
        statuses=statuses,
        results=CallResults(store, pending_calls, statuses, running),
        resumptions=resumptions,
        cancelled_runs=cancelled_runs,
        restored_calls=restored_calls,
        expiry_timer=expiry_timer,
        ledger=ledger,
        write_retry=write_retry,
        agent_inbox=AgentInbox(store),
    )
