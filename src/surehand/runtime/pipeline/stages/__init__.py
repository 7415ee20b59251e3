"""The stages of the pipeline, outermost first: a call passes them in this order."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from surehand.catalogue.catalogue import Catalogue
from surehand.core.clock import Deadlines
from surehand.runtime.active_spaces import ActiveSpaces
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.defaults import Defaults
from surehand.runtime.durability.call_messages import CallMessages
from surehand.runtime.durability.call_record import StoredOutcomes
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.invocation import NextStage
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.breaker_table import ProviderBreakers
from surehand.runtime.limits.queue_table import QueueTable
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.pending.confirmation import Confirmation
from surehand.runtime.pending.parking import Parking
from surehand.runtime.pending.pending_calls import PendingCalls
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.installed_middleware import MiddlewareTable
from surehand.runtime.pipeline.pipeline import CallStages
from surehand.runtime.pipeline.result_cache import ResultCache
from surehand.runtime.pipeline.stages.active_space import active_space
from surehand.runtime.pipeline.stages.approve import approve
from surehand.runtime.pipeline.stages.audience import audience
from surehand.runtime.pipeline.stages.breaker import breaker
from surehand.runtime.pipeline.stages.budget import budget
from surehand.runtime.pipeline.stages.cache import cache
from surehand.runtime.pipeline.stages.clip import clip
from surehand.runtime.pipeline.stages.commit import CommittedResults, commit
from surehand.runtime.pipeline.stages.deadline import deadline
from surehand.runtime.pipeline.stages.follow import follow
from surehand.runtime.pipeline.stages.intent import intent
from surehand.runtime.pipeline.stages.invoke import invoke
from surehand.runtime.pipeline.stages.ledger import ledger
from surehand.runtime.pipeline.stages.middleware import middleware, outer_middleware
from surehand.runtime.pipeline.stages.mount import mount
from surehand.runtime.pipeline.stages.park import park
from surehand.runtime.pipeline.stages.publish import publish
from surehand.runtime.pipeline.stages.queue import queue
from surehand.runtime.pipeline.stages.recall import recall
from surehand.runtime.pipeline.stages.record import record
from surehand.runtime.pipeline.stages.retry import retry
from surehand.runtime.pipeline.stages.validate import validate
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore

BoundStage: TypeAlias = partial[NextStage]
"""A stage with the services that it uses."""

STAGES: tuple[Callable[..., NextStage], ...] = (
    active_space,  # make calls in the space that their agent entered
    record,  # statistics, journal and events, once per call; interruptions and our own bugs become outcomes
    commit,  # keep the last results of a session; await `on_commit`
    outer_middleware,  # middleware that sees refused calls too, such as `logging`
    audience,  # models cannot call a tool that is only for people
    mount,  # enter the lifespan of a tool that was added late
    validate,  # arguments against the schema, repaired where plain parsing fails
    recall,  # a given id that is known: the stored outcome, the same Pending, or a conflict
    budget,  # the calls and tokens of a turn
    publish,  # show a visible call as a message in the active space
    park,  # store a pending call; the only stage that knows that pending calls are stored
    follow,  # a repetition of a call that waits follows that call
    approve,  # policy and confirmation: allow, ask, or deny
    ledger,  # record the outcome, once
    clip,  # store an output that is too large under a handle
    middleware,  # global, then per tool
    cache,  # return a cached result; equal concurrent calls run once
    retry,  # retry repeatable calls after a back-off that holds no slot
    breaker,  # do not call a provider that is known to be down
    queue,  # wait for a slot; outside `deadline`, because waiting is not running
    intent,  # claim a call that is not repeatable, once it has its slot
    deadline,  # the time limit of one attempt
    invoke,  # run the handler or the provider; the only place where foreign code runs
)


def bind_outer_stages(
    *,
    active_spaces: ActiveSpaces,
    background_tasks: BackgroundTasks,
    catalogue: Catalogue,
    committed_results: CommittedResults,
    crash_report: CrashReport,
    journal: StoreJournal,
    lifespans: Lifespans,
    max_input: int,
    messages: CallMessages,
    middleware_table: MiddlewareTable,
    outputs: OversizedOutputs,
    reports: CallReports,
    running: RunningCalls,
) -> list[BoundStage]:
    """The stages that every call passes once: those that report it, check its arguments and show it."""
    return [
        partial(active_space, active_spaces=active_spaces),
        partial(record, reports=reports, running=running, crash_report=crash_report),
        partial(commit, committed_results=committed_results),
        partial(outer_middleware, table=middleware_table, background_tasks=background_tasks, crash_report=crash_report),
        partial(audience),
        partial(mount, lifespans=lifespans),
        partial(validate, max_input=max_input),
        partial(budget, outputs=outputs),
        partial(publish, active_spaces=active_spaces, messages=messages, journal=journal, catalogue=catalogue),
    ]


def bind_durable_stages(
    *,
    confirmation: Confirmation,
    crash_report: CrashReport,
    journal: StoreJournal,
    ledger_service: Ledger,
    outcomes: StoredOutcomes,
    parking: Parking,
    pending_calls: PendingCalls,
    repeated_calls: RepeatedCalls,
    store: RuntimeStore,
) -> list[BoundStage]:
    """The stages of calls that wait or have effects: recalled, parked, approved, claimed and recorded."""
    is_durable = store.is_durable
    return [
        partial(recall, store=store, ledger=ledger_service, outcomes=outcomes, pending_calls=pending_calls),
        partial(park, parking=parking, ledger=ledger_service, is_durable=is_durable),
        partial(follow, repeated_calls=repeated_calls, store=store),
        partial(approve, confirmation=confirmation, store=store, journal=journal),
        partial(ledger, ledger=ledger_service, journal=journal, crash_report=crash_report, is_durable=is_durable),
        partial(intent, ledger=ledger_service, repeated_calls=repeated_calls, is_durable=is_durable),
    ]


def bind_inner_stages(
    *,
    background_tasks: BackgroundTasks,
    breakers: ProviderBreakers,
    crash_report: CrashReport,
    deadlines: Deadlines,
    defaults: Defaults,
    ledger_service: Ledger,
    middleware_table: MiddlewareTable,
    outputs: OversizedOutputs,
    queues: QueueTable,
    reports: CallReports,
    result_cache: ResultCache,
    running: RunningCalls,
) -> list[BoundStage]:
    """The stages around the handler: what limits it, repeats it and shortens its output."""
    return [
        partial(clip, outputs=outputs, max_output=defaults.max_output),
        partial(middleware, table=middleware_table, background_tasks=background_tasks, crash_report=crash_report),
        partial(cache, results=result_cache),
        partial(retry, clock=running.clock, first_delay=defaults.retry_delay),
        partial(breaker, breakers=breakers),
        partial(queue, queues=queues, reports=reports, ledger=ledger_service),
        partial(
            deadline,
            deadlines=deadlines,
            background_tasks=background_tasks,
            defaults=defaults,
            crash_report=crash_report,
        ),
        partial(invoke, crash_report=crash_report, max_output=defaults.max_output),
    ]


def order_stages(bound: Iterable[BoundStage]) -> CallStages:
    """The stages of one runtime in their order."""
    by_function = {each.func: each for each in bound}
    assert by_function.keys() == set(STAGES), "each bound stage has its place in STAGES, and the other way round"
    return CallStages(
        all=tuple(by_function[stage] for stage in STAGES),
        outer=(by_function[record], by_function[outer_middleware]),
    )
