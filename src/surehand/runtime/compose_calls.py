"""Composition of what calls need: the stages, and the services of stored calls.

Importing this module loads the tables of the store; `Runtime` does it when the first call is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from surehand.runtime.agent_inbox import AgentInbox
from surehand.runtime.call_loader import AnswerServices, CallServices
from surehand.runtime.compose import RuntimeParts
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import StoredOutcomes
from surehand.runtime.durability.call_statements import CallStatements
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.pending.answers import Answers
from surehand.runtime.pending.call_resumer import CallResumer
from surehand.runtime.pending.cancelled_runs import CancelledRuns
from surehand.runtime.pending.confirmation import Confirmation
from surehand.runtime.pending.local_calls import ExpiryTimer, LocalPendingCalls
from surehand.runtime.pending.parking import Parking
from surehand.runtime.pending.pending_call_writer import PendingCallWriter
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pending.restored_call import OpenScope, RestoredCalls
from surehand.runtime.pending.result import CallResults
from surehand.runtime.pending.status import CallStatuses
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.pipeline import CallStages
from surehand.runtime.pipeline.refused_calls import RefusedCalls
from surehand.runtime.pipeline.stages import bind_durable_stages, bind_inner_stages, bind_outer_stages, order_stages
from surehand.runtime.pipeline.stages.commit import CommittedResults


@dataclass(frozen=True, slots=True)
class DurabilityServices:
    """What records calls in the store."""

    outcomes: StoredOutcomes
    repeated_calls: RepeatedCalls
    messages: CallMessages
    write_retry: WriteRetry
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class PendingServices:
    """What stores calls that wait, and applies the answers to them."""

    pending_calls: PendingCalls
    restored_calls: RestoredCalls
    call_resumer: CallResumer
    parking: Parking
    cancelled_runs: CancelledRuns
    answers: Answers


def compose_calls(parts: RuntimeParts, open_scope: OpenScope) -> CallServices:
    """The stages and the services of stored calls of one runtime."""

    def expire_overdue_calls() -> None:  # `pending` is made below, and before any call can be overdue
        if parts.running.is_open:
            _ = parts.background_tasks.spawn(pending.answers.expire_overdue_calls())

    local = LocalPendingCalls(parts.options.clock)
    expiry_timer = ExpiryTimer(parts.options.clock, expire_overdue_calls)
    durability = _compose_durability(parts, local)
    pending = _compose_pending(parts, open_scope, local, expiry_timer, durability)
    reports = CallReports(
        parts.stats,
        parts.listeners,
        parts.journal,
        parts.options.clock,
        memory_journal=parts.memory_journal,
        auto_complete=parts.options.auto_complete,
    )
    committed_results = CommittedResults(parts.last_results, parts.options.on_commit, parts.background_tasks)
    refused_calls = RefusedCalls(
        reports, committed_results, parts.provider_table, parts.middleware, parts.options.crash_report
    )
    statuses = CallStatuses(parts.store, pending.pending_calls, local, durability.outcomes)
    return CallServices(
        stages=_compose_stages(parts, durability, pending, reports, committed_results),
        refused_calls=refused_calls,
        answering=AnswerServices(
            answers=pending.answers,
            pending_calls=pending.pending_calls,
            statuses=statuses,
            results=CallResults(parts.store, pending.pending_calls, statuses, parts.running),
        ),
        local=local,
        call_resumer=pending.call_resumer,
        cancelled_runs=pending.cancelled_runs,
        restored_calls=pending.restored_calls,
        expiry_timer=expiry_timer,
        ledger=durability.ledger,
        write_retry=durability.write_retry,
        agent_inbox=AgentInbox(parts.store),
    )


def _compose_durability(parts: RuntimeParts, local: LocalPendingCalls) -> DurabilityServices:
    store = parts.store
    write_retry = WriteRetry(store)
    outcomes = StoredOutcomes(store, parts.outputs)
    repeated_calls = RepeatedCalls(store)
    messages = CallMessages(
        store,
        write_retry,
        shows_calls=store.is_durable and parts.options.spaces is None,
        max_output=parts.options.defaults.max_output,
    )
    ledger = Ledger(
        store,
        CallStatements(store, parts.journal, messages),
        write_retry=write_retry,
        outcomes=outcomes,
        repeated_calls=repeated_calls,
        messages=messages,
        crash_report=parts.options.crash_report,
        on_ended=local.on_call_ended,
        on_answer_recorded=local.on_answer_recorded,
    )
    return DurabilityServices(outcomes, repeated_calls, messages, write_retry, ledger)


def _compose_pending(
    parts: RuntimeParts,
    open_scope: OpenScope,
    local: LocalPendingCalls,
    expiry_timer: ExpiryTimer,
    durability: DurabilityServices,
) -> PendingServices:
    store = parts.store
    pending_calls = PendingCalls(store, local, durability.outcomes, parts.catalogue, parts.named_scopes)
    restored_calls = RestoredCalls(local, parts.offered_tools, parts.named_scopes, open_scope)
    call_resumer = CallResumer(
        store,
        pending_calls,
        local,
        restored_calls,
        ledger=durability.ledger,
        outcomes=durability.outcomes,
        write_retry=durability.write_retry,
        running=parts.running,
        background_tasks=parts.background_tasks,
        listeners=parts.listeners,
    )
    cancelled_runs = CancelledRuns(store, call_resumer, parts.running)
    answers = Answers(
        store,
        pending_calls,
        call_resumer,
        restored_calls,
        cancelled_runs,
        expiry_timer=expiry_timer,
        running=parts.running,
    )
    parking = Parking(
        _compose_writer(parts, local, expiry_timer, durability, pending_calls),
        pending_calls,
        local,
        call_resumer.following_calls,
        ledger=durability.ledger,
        journal=parts.journal,
        wait_refusal=parts.wait_refusal,
    )
    return PendingServices(pending_calls, restored_calls, call_resumer, parking, cancelled_runs, answers)


def _compose_writer(
    parts: RuntimeParts,
    local: LocalPendingCalls,
    expiry_timer: ExpiryTimer,
    durability: DurabilityServices,
    pending_calls: PendingCalls,
) -> PendingCallWriter:
    return PendingCallWriter(
        parts.store,
        pending_calls,
        local,
        outcomes=durability.outcomes,
        repeated_calls=durability.repeated_calls,
        messages=durability.messages,
        journal=parts.journal,
        write_retry=durability.write_retry,
        expiry_timer=expiry_timer,
        listeners=parts.listeners,
        call_ends=parts.running.ends,
        default_time_to_live=parts.options.defaults.pending_ttl,
    )


def _compose_stages(
    parts: RuntimeParts,
    durability: DurabilityServices,
    pending: PendingServices,
    reports: CallReports,
    committed_results: CommittedResults,
) -> CallStages:
    options = parts.options
    outer = bind_outer_stages(
        active_spaces=parts.active_spaces,
        background_tasks=parts.background_tasks,
        catalogue=parts.catalogue,
        committed_results=committed_results,
        crash_report=options.crash_report,
        journal=parts.journal,
        lifespans=parts.lifespans,
        max_input=options.defaults.max_input,
        messages=durability.messages,
        middleware_table=parts.middleware,
        outputs=parts.outputs,
        reports=reports,
        running=parts.running,
    )
    durable = bind_durable_stages(
        confirmation=Confirmation(parts.background_tasks, options.clock, options.approver),
        crash_report=options.crash_report,
        journal=parts.journal,
        ledger_service=durability.ledger,
        outcomes=durability.outcomes,
        parking=pending.parking,
        pending_calls=pending.pending_calls,
        repeated_calls=durability.repeated_calls,
        store=parts.store,
    )
    inner = bind_inner_stages(
        background_tasks=parts.background_tasks,
        breakers=parts.breakers,
        crash_report=options.crash_report,
        deadlines=parts.deadlines,
        defaults=options.defaults,
        ledger_service=durability.ledger,
        middleware_table=parts.middleware,
        outputs=parts.outputs,
        queues=parts.queues,
        reports=reports,
        result_cache=parts.result_cache,
        running=parts.running,
    )
    return order_stages([*outer, *durable, *inner])
